{# y = weight · x / sqrt(mean(x²) + eps) over each of `heads` equal parts of each row; in place where
   y is x. A workgroup takes one part. #}
const K = {{ k }}u;

{% if in_place %}
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<storage, read> weight: array<f32>;
{% else %}
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
{% endif %}

var<workgroup> squares: array<f32, {{ threads }}>;

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let thread = subgroup * width + lane;
    let begin = (group.y * {{ heads }}u + group.x) * K;
    var sum = 0.0;
    for (var i = thread; i < K; i += {{ threads }}u) {
        let v = {{ "y" if in_place else "x" }}[begin + i];
        sum += v * v;
    }
    sum = subgroupAdd(sum);
    if (lane == 0u) {
        squares[subgroup] = sum;
    }
    workgroupBarrier();
    var all = 0.0;
    for (var i = 0u; i < subgroups; i++) {
        all += squares[i];
    }
    let factor = inverseSqrt(all / f32(K) + {{ eps }});
    for (var i = thread; i < K; i += {{ threads }}u) {
        y[begin + i] = {{ "y" if in_place else "x" }}[begin + i] * factor * weight[i];
    }
}
