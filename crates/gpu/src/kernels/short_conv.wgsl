{# A causal convolution of each channel over the rows of a sequence, then a function, in place:
       y[p][c] = f(Σ_t weight[c][t] · x[p − taps + 1 + t][c] + bias[c])
   The state of a slot has its newest taps − 1 inputs, the oldest first. A thread computes a channel
   of all rows of a sequence in the pass, one after the other; inputs are loaded {{ ahead }} rows at a
   time, so that their latencies overlap. The grid's z is the sequence. #}
const CHANNELS = {{ channels }}u;

var<storage, read> rows: array<vec4<u32>>;
// the rows of the pass by sequence, and the first and the number of those of each sequence
var<storage, read> order: array<u32>;
var<storage, read> sequences: array<vec2<u32>>;
var<storage, read_write> x: array<f32>;
var<storage, read_write> states: array<f32>;
var<storage, read> weight: array<f32>;
{% if has_bias %}
var<storage, read> bias: array<f32>;
{% endif %}
{% include "activation.wgsl" %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let run = sequences[id.z];
    let channel = id.x;
    if (channel >= CHANNELS || run.y == 0u) {
        return;
    }
    let first = rows[order[run.x]];
    let state = first.z * {{ (taps - 1) * channels }}u + channel;
    let goes_on = first.y > 0u;
{% for t in range(taps - 1) %}
    var x{{ t }} = select(0.0, states[state + {{ t * channels }}u], goes_on);
{% endfor %}
{% for t in range(taps) %}
    let w{{ t }} = weight[channel * {{ taps }}u + {{ t }}u];
{% endfor %}
    let summand = {{ "bias[channel]" if has_bias else "0.0" }};
    for (var i = 0u; i < run.y; i += {{ ahead }}u) {
{% for j in range(ahead) %}
        let at{{ j }} = order[run.x + min(i + {{ j }}u, run.y - 1u)] * CHANNELS + channel;
        let next{{ j }} = x[at{{ j }}];
{% endfor %}
{% for j in range(ahead) %}
        if (i + {{ j }}u < run.y) {
            var sum = fma(w{{ taps - 1 }}, next{{ j }}, summand);
{% for t in range(taps - 1) %}
            sum = fma(w{{ t }}, x{{ t }}, sum);
{% endfor %}
            x[at{{ j }}] = activated(sum);
{% for t in range(taps - 2) %}
            x{{ t }} = x{{ t + 1 }};
{% endfor %}
            x{{ taps - 2 }} = next{{ j }};
        }
{% endfor %}
    }
{% for t in range(taps - 1) %}
    states[state + {{ t * channels }}u] = x{{ t }};
{% endfor %}
}
