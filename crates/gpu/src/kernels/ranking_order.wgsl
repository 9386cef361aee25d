{# The order of tokens: descending logits, equal ones by token. A pair has a logit and a token. #}
const LOWEST = -3e38;
// before all pairs, and after all of them
const FIRST = vec2<f32>(3.4e38, -1.0);
const NOTHING = vec2<f32>(LOWEST, 1e9);

{% include "sum.wgsl" %}
var<workgroup> bests: array<vec2<f32>, {{ threads }}>;

// Whether a pair comes before another one.
fn comes_first(a: vec2<f32>, b: vec2<f32>) -> bool {
    return a.x > b.x || (a.x == b.x && a.y < b.y);
}

// The first of two pairs, of the second one only if it comes after `before`.
fn better(a: vec2<f32>, b: vec2<f32>, before: vec2<f32>) -> vec2<f32> {
    let counts = b.x > LOWEST && comes_first(before, b);
    return select(a, b, counts && comes_first(b, a));
}

// The first of the pairs of all threads.
fn best_of_all(mine: vec2<f32>, subgroup: u32, subgroups: u32, lane: u32) -> vec2<f32> {
    let most = subgroupMax(mine.x);
    let token = subgroupMin(select(NOTHING.y, mine.y, mine.x == most));
    if (lane == 0u) {
        bests[subgroup] = vec2(most, token);
    }
    workgroupBarrier();
    var best = bests[0];
    for (var s = 1u; s < subgroups; s++) {
        let other = bests[s];
        best = select(best, other, comes_first(other, best));
    }
    workgroupBarrier();
    return best;
}
