{# The likeliest tokens of a part of the vocabulary, and the sum of exponentials, from those of its chunks. A
   workgroup has a part of a row. #}
const CHUNKS = {{ chunks }}u;
const THREADS = {{ threads }}u;

var<storage, read> ranking: array<u32>;
var<storage, read> parts: array<vec2<f32>>;
// the greatest logit and the sum of each row and part, then logits and tokens
var<storage, read_write> ranked: array<vec2<f32>>;

{% include "ranking_order.wgsl" %}

// The first pair of a chunk.
fn place(group: vec3<u32>, chunk: u32) -> u32 {
    return ((group.y * CHUNKS + chunk) * 2u + group.x) * {{ most + 1 }}u;
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
    let count = ranking[1];
    let at = (group.y * 2u + group.x) * (1u + count);
    var before = FIRST;
    for (var i = 0u; i < count; i++) {
        var mine = NOTHING;
        for (var k = thread; k < CHUNKS * count; k += THREADS) {
            mine = better(mine, parts[place(group, k / count) + 1u + k % count], before);
        }
        let best = best_of_all(mine, subgroup, subgroups, lane);
        if (i == 0u) {
            var sum = 0.0;
            for (var chunk = thread; chunk < CHUNKS; chunk += THREADS) {
                let it = parts[place(group, chunk)];
                sum += select(0.0, it.y * exp(it.x - best.x), it.y > 0.0);
            }
            sum = workgroup_sum(sum, subgroup, subgroups, lane);
            if (thread == 0u) {
                ranked[at] = vec2(best.x, sum);
            }
        }
        if (thread == 0u) {
            ranked[at + 1u + i] = vec2(best.x, select(-1.0, best.y, best.x > LOWEST));
        }
        before = best;
    }
}
