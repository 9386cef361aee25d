{# y = weight · x / sqrt(mean(x²) + eps) over each of `heads` equal parts of each row; in place if y is
   x. A workgroup computes one part. #}
const K = {{ k }}u;
const THREADS = {{ threads }}u;

{% set y = "x" if in_place else "y" %}
@group(0) @binding(0) var<storage, {{ "read_write" if in_place else "read" }}> x: array<f32>;
{% if not in_place %}
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
{% endif %}
@group(0) @binding({{ 1 if in_place else 2 }}) var<storage, read> weight: array<f32>;
{% set vector = false %}
{% include "rms.wgsl" %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let thread = subgroup * width + lane;
    let part = group.y * {{ heads }}u + group.x;
    let scale = factor(part, thread, subgroup, subgroups, lane);
    for (var i = part * K + thread; i < (part + 1u) * K; i += THREADS) {
        {{ y }}[i] = x[i] * scale * weight[i - part * K];
    }
}
