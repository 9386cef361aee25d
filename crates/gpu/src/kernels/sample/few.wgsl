{# Draws among few tokens, by one workgroup. The k likeliest tokens are in the k chunks whose best
   are the likeliest: any other token has k better ones before it. So the search goes through the
   bests of the chunks, then through k chunks. Both searches stop as soon as few enough are left;
   the rank of each then says which belong to the k. #}
{% include "sample/types.wgsl" %}
{% include "sample/logits.wgsl" %}
@group(0) @binding(1) var<storage, read> best: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> rule: Rule;
@group(0) @binding(3) var<storage, read_write> rows: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> tokens: array<u32>;
@group(0) @binding(5) var<storage, read_write> state: State;

const THREADS = {{ threads }}u;
const EACH = {{ each }}u;

var<workgroup> counts: array<atomic<u32>, 2048>;
var<workgroup> length: atomic<u32>;
var<workgroup> chunks: array<u32, {{ threads }}>;
var<workgroup> candidates: array<vec2<u32>, {{ threads }}>;
var<workgroup> weights: array<u32, {{ threads }}>;
var<workgroup> total: vec3<u32>;

fn bin(i: u32) -> vec3<u32> {
    return vec3(atomicLoad(&counts[i]), 0u, 0u);
}

{% include "sample/numbers.wgsl" %}
{% include "sample/noise.wgsl" %}
{% include "sample/best.wgsl" %}
{% include "sample/cut.wgsl" %}
{% include "sample/pick.wgsl" %}
{% include "sample/enough.wgsl" %}
{% include "sample/record.wgsl" %}

struct Four {
    keys: vec4<u32>,
    tokens: vec4<u32>,
}

// Four of the chunks' bests, or of the logits of the chosen chunks.
fn four(in_chunks: bool, i: u32) -> Four {
    if (in_chunks) {
        let chunk = chunks[i / EACH];
        let at = (chunk / {{ chunk_threads }}u * EACH + i % EACH) * {{ chunk_threads }}u
            + chunk % {{ chunk_threads }}u;
        return Four(keys(at), 4u * at + vec4(0u, 1u, 2u, 3u));
    }
    let a = best[4u * i];
    let b = best[4u * i + 1u];
    let c = best[4u * i + 2u];
    let d = best[4u * i + 3u];
    return Four(vec4(a.x, b.x, c.x, d.x), vec4(a.y, b.y, c.y, d.y));
}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let thread = subgroup * width + lane;
    let k = min(rule.top_k, {{ few }}u);
    let enough = max(2u * k, 64u);
    var fours = {{ chunks // 4 }}u;
    for (var search = 0u; search < 2u; search++) {
        let in_chunks = search == 1u;
        if (thread == 0u) {
            atomicStore(&length, 0u);
        }
        var cut = Cut(0u, 0u);
        var before = vec3(0u);
        for (var level = 0u; level < LEVELS; level++) {
            for (var i = thread; i < BINS; i += THREADS) {
                atomicStore(&counts[i], 0u);
            }
            workgroupBarrier();
            for (var i = thread; i < fours; i += THREADS) {
                let f = four(in_chunks, i);
{% for j in range(4) %}
                let rank{{ j }} = rank_of(f.tokens[{{ j }}]);
                if (is_beside(cut, level, f.keys[{{ j }}], rank{{ j }})) {
                    atomicAdd(&counts[digit(level, f.keys[{{ j }}], rank{{ j }})], 1u);
                }
{% endfor %}
            }
            workgroupBarrier();
            let share = share_of(thread, subgroup, subgroups, lane, width);
            let found = pick(share, before, vec3(k, 0u, 0u), thread);
            cut = with_digit(cut, level, found.bin);
            before = found.before;
            if (found.after.x <= enough) {
                break;
            }
        }
        for (var i = thread; i < fours; i += THREADS) {
            let f = four(in_chunks, i);
{% for j in range(4) %}
            if (is_left(cut, f.keys[{{ j }}], rank_of(f.tokens[{{ j }}]))) {
                let slot = atomicAdd(&length, 1u);
                if (in_chunks) {
                    candidates[slot] = vec2(f.keys[{{ j }}], f.tokens[{{ j }}]);
                } else {
                    chunks[slot] = 4u * i + {{ j }}u;
                }
            }
{% endfor %}
        }
        workgroupBarrier();
        fours = atomicLoad(&length) * EACH;
        workgroupBarrier();
    }
    let count = fours / EACH;

    // each thread has one candidate at most
    let is_mine = thread < count;
    var own = vec2(0u);
    if (is_mine) {
        own = candidates[thread];
    }
    let greatest = best_of(own, subgroup, subgroups, lane).x;
    let away = natural(greatest, own.x);
    let own_weight = weight(away);
    weights[thread] = own_weight;
    workgroupBarrier();
    // how many come before it, and the sum of their weights
    var rank = 0u;
    var sum = vec3(0u);
    for (var i = 0u; i < count; i++) {
        if (is_better(candidates[i], own)) {
            rank += 1u;
            sum += vec3(weights[i] & 0xfffffu, weights[i] >> 20u, 0u);
        }
    }
    sum = carried(sum);
    if (is_mine && rank == min(k, count) - 1u) {
        total = carried(sum + vec3(own_weight & 0xfffffu, own_weight >> 20u, 0u));
    }
    let goal = enough_of(workgroupUniformLoad(&total));
    var mine = vec2(0u);
    if (is_mine && rank < k && !reaches(sum, goal) && away <= rule.reach) {
        mine = vec2(drawn(words(own.y / 4u)[own.y % 4u], greatest, own.x), own.y);
    }
    let choice = best_of(mine, subgroup, subgroups, lane);
    if (thread == 0u) {
        record(choice);
    }
}
