{# Activations in f16 for products on matrix cores, with rows padded with zeros:
       a = x, or norm(x)
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
{% include "rms.wgsl" %}
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
{% if norm %}
    let scale = factor(row, thread, subgroup, subgroups, lane);
{% endif %}
    for (var i = thread; i < VECTORS; i += THREADS) {
        var v = vec4(0.0);
{% if vector %}
        if (i < K / 4u) {
            v = x[row * (K / 4u) + i];
{% if norm %}
            v = v * scale * norm_weight[i];
{% endif %}
        }
{% else %}
{% for j in range(4) %}
        if (i * 4u + {{ j }}u < K) {
            var e = x[row * K + i * 4u + {{ j }}u];
{% if norm %}
            e = e * scale * norm_weight[i * 4u + {{ j }}u];
{% endif %}
            v[{{ j }}] = e;
        }
{% endfor %}
{% endif %}
        a[row * VECTORS + i] = halved(v);
    }
}
