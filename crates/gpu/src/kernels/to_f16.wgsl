{# Activations in f16 for products on matrix cores, with rows padded with zeros:
       a = x, or norm(x)
   A workgroup converts a row. #}
const K = {{ k }}u;
const THREADS = {{ threads }}u;
// vectors of four elements of a row of `a`
const VECTORS = {{ padded // 4 }}u;

{% set vector = k % 4 == 0 %}
{% set element = "vec4<f32>" if vector else "f32" %}
@group(0) @binding(0) var<storage, read> x: array<{{ element }}>;
@group(0) @binding(1) var<storage, read_write> a: array<vec2<u32>>;
{% if norm %}
@group(0) @binding(2) var<storage, read> norm_weight: array<{{ element }}>;
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
    let row = {{ "group.x * %su + group.y"|format(per_row) if per_row > 1 else "group.x" }};
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
        // values beyond the range of f16 become its greatest value rather than an infinity, so that
        // an outlier loses accuracy and not the whole row; NaN is kept
        let is_nan = (bitcast<vec4<u32>>(v) & vec4(0x7fffffffu)) > vec4(0x7f800000u);
        v = select(clamp(v, vec4(-65504.0), vec4(65504.0)), v, is_nan);
        a[row * VECTORS + i] = vec2(pack2x16float(v.xy), pack2x16float(v.zw));
    }
}
