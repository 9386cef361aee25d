{# The likeliest allowed tokens of a chunk of the vocabulary, in each of its two parts, and the sums of their
   exponentials. A workgroup has a chunk of a row; a thread has {{ each }} of its logits. #}
const VOCAB = {{ vocab }}u;
const TOKENS = {{ tokens }}u;
const WORDS = {{ words }}u;
const CHUNK = {{ chunk }}u;
const THREADS = {{ threads }}u;

var<storage, read> logits: array<u32>;
var<storage, read> masks: array<u32>;
// the first token of the second part, and the number of tokens
var<storage, read> ranking: array<u32>;
// the greatest logit and the sum of each row, chunk and part, then logits and tokens
var<storage, read_write> parts: array<vec2<f32>>;

{% include "ranking_order.wgsl" %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let thread = subgroup * width + lane;
    let split = ranking[0];
    let count = ranking[1];
    let begin = group.x * CHUNK;
{% for j in range(each) %}
    let id{{ j }} = begin + thread + {{ j * threads }}u;
    let bits{{ j }} = logits[group.y * VOCAB + min(id{{ j }}, VOCAB - 1u)];
    let word{{ j }} = masks[group.y * WORDS + min(id{{ j }} / 32u, WORDS - 1u)];
    // compared as bits, because drivers may assume that there is no NaN
    let number{{ j }} = (bits{{ j }} & 0x7fffffffu) <= 0x7f800000u;
    let allowed{{ j }} = id{{ j }} < TOKENS && ((word{{ j }} >> (id{{ j }} % 32u)) & 1u) == 1u && number{{ j }};
    let x{{ j }} = select(LOWEST, clamp(bitcast<f32>(bits{{ j }}), LOWEST, -LOWEST), allowed{{ j }});
{% endfor %}
    for (var part = 0u; part < 2u; part++) {
        let at = ((group.y * groups.x + group.x) * 2u + part) * {{ most + 1 }}u;
{% for j in range(each) %}
        let own{{ j }} = vec2(select(LOWEST, x{{ j }}, (id{{ j }} >= split) == (part == 1u)), f32(id{{ j }}));
{% endfor %}
        var before = FIRST;
        for (var i = 0u; i < count; i++) {
            var mine = NOTHING;
{% for j in range(each) %}
            mine = better(mine, own{{ j }}, before);
{% endfor %}
            let best = best_of_all(mine, subgroup, subgroups, lane);
            if (i == 0u) {
                var sum = 0.0;
{% for j in range(each) %}
                sum += select(0.0, exp(own{{ j }}.x - best.x), own{{ j }}.x > LOWEST);
{% endfor %}
                sum = workgroup_sum(sum, subgroup, subgroups, lane);
                if (thread == 0u) {
                    parts[at] = vec2(best.x, sum);
                }
            }
            if (thread == 0u) {
                parts[at + 1u + i] = best;
            }
            before = best;
        }
    }
}
