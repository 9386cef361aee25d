{# The norm of each of `heads` equal parts of each row, y = weight · normed(x) + bias:
       rms      x / sqrt(mean(x²) + eps)
       layer    (x - mean(x)) / sqrt(variance(x) + eps)
       l2       x / sqrt(Σ x² + eps)
   In place if y is x. A workgroup computes one part; K counts elements of a thread, which are vectors
   of four where the length is a multiple of four. Factors and summands are those of a part, or of all
   parts of a row (`weight_heads`, `bias_heads` above 1). #}
const K = {{ k }}u;
const LENGTH = {{ length }}.0;
const THREADS = {{ threads }}u;
alias Element = {{ element }};

{% set y = "x" if in_place else "y" %}
var<storage, {{ "read_write" if in_place else "read" }}> x: array<Element>;
{% if not in_place %}
var<storage, read_write> y: array<Element>;
{% endif %}
{% if weight_heads %}
var<storage, read> weight: array<Element>;
{% endif %}
{% if bias_heads %}
var<storage, read> bias: array<Element>;
{% endif %}
{% include "sum.wgsl" %}

fn total(v: Element) -> f32 {
    return {{ "dot(v, vec4(1.0))" if element != "f32" else "v" }};
}

fn square(v: Element) -> f32 {
    return {{ "dot(v, v)" if element != "f32" else "v * v" }};
}

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
    let begin = part * K;
    var sum = 0.0;
{% if kind == "layer" %}
    for (var i = thread; i < K; i += THREADS) {
        sum += total(x[begin + i]);
    }
    let mean = workgroup_sum(sum, subgroup, subgroups, lane) / LENGTH;
    // a second pass over the row: the mean of squares less the square of the mean loses digits
    sum = 0.0;
    for (var i = thread; i < K; i += THREADS) {
        sum += square(x[begin + i] - mean);
    }
{% else %}
    for (var i = thread; i < K; i += THREADS) {
        sum += square(x[begin + i]);
    }
{% endif %}
    sum = workgroup_sum(sum, subgroup, subgroups, lane);
    let factor = inverseSqrt(sum{{ " / LENGTH" if kind != "l2" }} + {{ eps }});
    for (var i = thread; i < K; i += THREADS) {
        let v = (x[begin + i]{{ " - mean" if kind == "layer" }}) * factor;
        {{ y }}[begin + i] = v
            {{- " * weight[%si]"|format("group.x * K + " if weight_heads > 1 else "") if weight_heads }}
            {{- " + bias[%si]"|format("group.x * K + " if bias_heads > 1 else "") if bias_heads }};
    }
}
