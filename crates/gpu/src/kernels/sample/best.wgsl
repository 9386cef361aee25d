{# The best of pairs of a key and a token: the greatest key, of equal keys the lowest token. #}
fn is_better(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x > b.x || (a.x == b.x && a.y < b.y);
}

// one for each subgroup, of which the narrowest have 4 threads
var<workgroup> bests: array<vec2<u32>, {{ threads // 4 }}>;

// The best of the pairs of all threads, returned to all of them.
fn best_of(mine: vec2<u32>, subgroup: u32, subgroups: u32, lane: u32) -> vec2<u32> {
    let key = subgroupMax(mine.x);
    let token = subgroupMin(select(0xffffffffu, mine.y, mine.x == key));
    if (lane == 0u) {
        bests[subgroup] = vec2(key, token);
    }
    workgroupBarrier();
    var best = bests[0];
    for (var i = 1u; i < subgroups; i++) {
        if (is_better(bests[i], best)) {
            best = bests[i];
        }
    }
    return best;
}
