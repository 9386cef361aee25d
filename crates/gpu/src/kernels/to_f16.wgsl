{# Activations in f16 for products on matrix cores, with rows padded with zeros:
       a = x, or norm(x): with `centred` a LayerNorm, else a root-mean-square norm
   With `splits`, x is completed first from the partial sums [s][r][n] of the K splits of a product:
       x[r][n] += Σ_s partial[s][r][n] (+ bias[n])
   A workgroup converts a row. #}
const K = {{ k }}u;
const THREADS = {{ threads }}u;
// vectors of four elements of a row of `a`
const VECTORS = {{ padded // 4 }}u;

{% set vector = k % 4 == 0 %}
{% set element = "vec4<f32>" if vector else "f32" %}
var<storage, {{ "read_write" if splits else "read" }}> x: array<{{ element }}>;
var<storage, read_write> a: array<vec2<u32>>;
{% if norm %}
var<storage, read> norm_weight: array<{{ element }}>;
{% if norm_bias %}
var<storage, read> norm_bias: array<{{ element }}>;
{% endif %}
{% if centred %}
{% include "sum.wgsl" %}
{% else %}
{% include "rms.wgsl" %}
{% endif %}
{% endif %}
{% include "half_range.wgsl" %}
{% if splits %}
var<storage, read> partial: array<{{ element }}>;
{% if bias %}
var<storage, read> bias: array<{{ element }}>;
{% endif %}

// Completes the elements that the thread reads later.
fn complete(row: u32, thread: u32) {
    const N = {{ k // 4 if vector else k }}u;
    for (var i = thread; i < N; i += THREADS) {
        let at = row * N + i;
        var sum = partial[at];
{% for s in range(1, splits) %}
        sum += partial[{{ s * slab_rows }}u * N + at];
{% endfor %}
        x[at] = x[at] + sum{{ " + bias[i]" if bias }};
    }
}
{% endif %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let thread = subgroup * width + lane;
    let row = {{ "group.x * %su + group.y"|format(per_row) if per_row > 1 else "group.x" }};
{% if splits %}
    complete(row, thread);
{% if not vector %}
    // without vectors other threads convert the elements than those that complete them
    storageBarrier();
{% endif %}
{% endif %}
{% if centred %}
{% set length = k // 4 if vector else k %}
    var sum = 0.0;
    for (var i = thread; i < {{ length }}u; i += THREADS) {
        sum += {{ "dot(x[row * %su + i], vec4(1.0))"|format(length) if vector else "x[row * %su + i]"|format(length) }};
    }
    let mean = workgroup_sum(sum, subgroup, subgroups, lane) / f32(K);
    // a second pass over the row: the mean of squares less the square of the mean loses digits
    sum = 0.0;
    for (var i = thread; i < {{ length }}u; i += THREADS) {
        let v = x[row * {{ length }}u + i] - mean;
        sum += {{ "dot(v, v)" if vector else "v * v" }};
    }
    let scale = inverseSqrt(workgroup_sum(sum, subgroup, subgroups, lane) / f32(K) + {{ eps }});
{% elif norm %}
    let scale = factor(row, thread, subgroup, subgroups, lane);
{% endif %}
    for (var i = thread; i < VECTORS; i += THREADS) {
        var v = vec4(0.0);
{% if vector %}
        if (i < K / 4u) {
            v = x[row * (K / 4u) + i];
{% if norm %}
            v = {{ "(v - mean)" if centred else "v" }} * scale * norm_weight[i]{{ " + norm_bias[i]" if norm_bias }};
{% endif %}
        }
{% else %}
{% for j in range(4) %}
        if (i * 4u + {{ j }}u < K) {
            var e = x[row * K + i * 4u + {{ j }}u];
{% if norm %}
            e = {{ "(e - mean)" if centred else "e" }} * scale * norm_weight[i * 4u + {{ j }}u]{{ " + norm_bias[i * 4u + %su]"|format(j) if norm_bias }};
{% endif %}
            v[{{ j }}] = e;
        }
{% endfor %}
{% endif %}
        a[row * VECTORS + i] = halved(v);
    }
}
