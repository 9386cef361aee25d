{# The steps of a selective scan: Δ = clamp(softplus(dt + shift), low, high) of each head, and the factor
   of its state, e^(rate · Δ). The grid is one workgroup for each row. #}
const HEADS = {{ heads }}u;

var<storage, read> dt: array<f32>;
var<storage, read> rate: array<f32>;
var<storage, read> shift: array<f32>;
var<storage, read_write> steps: array<vec2<f32>>;
{% include "softplus.wgsl" %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = group.x * HEADS;
    for (var i = thread; i < HEADS; i += {{ threads }}u) {
        let step = clamp(softplus(dt[first + i] + shift[i]), {{ low }}, {{ high }});
        steps[first + i] = vec2<f32>(step, exp(rate[i] * step));
    }
}
