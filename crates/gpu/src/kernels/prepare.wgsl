{# Activations as products on matrix cores take them: in 16 bits, rows padded with zeros.
       a = x       a = norm(x)       a = silu(gate) · up
   A workgroup takes a row; with `selected` only the rows that the pass names. #}
const K = {{ k }}u;
const THREADS = {{ threads }}u;
// of a row of `a`, four numbers each
const VECTORS = {{ padded // 4 }}u;

{% set vector = k % 4 == 0 %}
{% set element = "vec4<f32>" if vector else "f32" %}
@group(0) @binding(0) var<storage, read> x: array<{{ element }}>;
@group(0) @binding(1) var<storage, read_write> a: array<vec2<u32>>;
{% set next = namespace(b=2) %}
{% if norm %}
@group(0) @binding({{ next.b }}) var<storage, read> norm_weight: array<{{ element }}>;
{% set next.b = next.b + 1 %}
{% endif %}
{% if glu %}
@group(0) @binding({{ next.b }}) var<storage, read> up: array<{{ element }}>;
{% set next.b = next.b + 1 %}
{% endif %}
{% if selected %}
@group(0) @binding({{ next.b }}) var<storage, read> pass_info: array<u32>;
{% endif %}

{% if norm %}
{% include "rms.wgsl" %}
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
{% if selected %}
    let row = pass_info[{{ selected_at }}u + group.x];
{% else %}
    let row = group.x;
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
{% if glu %}
            v = v / (1.0 + exp(-v)) * up[row * (K / 4u) + i];
{% endif %}
        }
{% else %}
{% for j in range(4) %}
        if (i * 4u + {{ j }}u < K) {
            var e = x[row * K + i * 4u + {{ j }}u];
{% if norm %}
            e = e * scale * norm_weight[i * 4u + {{ j }}u];
{% endif %}
{% if glu %}
            e = e / (1.0 + exp(-e)) * up[row * K + i * 4u + {{ j }}u];
{% endif %}
            v[{{ j }}] = e;
        }
{% endfor %}
{% endif %}
        // the largest 16-bit number rather than an infinity: one outlier then costs accuracy and
        // not the whole row
        v = clamp(v, vec4(-65504.0), vec4(65504.0));
        a[group.x * VECTORS + i] = vec2(pack2x16float(v.xy), pack2x16float(v.zw));
    }
}
