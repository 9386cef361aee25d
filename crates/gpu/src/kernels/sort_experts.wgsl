{# The pairs of rows and chosen experts in the order of experts, and the tiles of their products: up to
   {{ tile }} pairs of one expert. One workgroup counts the pairs of each expert, sums the counts, and
   writes each pair to a place of its expert. The order within an expert depends on time; no result
   does, because each pair has a result of its own. Tiles after the last are empty. #}
const EXPERTS = {{ experts }}u;
const TILE = {{ tile }}u;
const THREADS = {{ threads }}u;
// experts of a thread
const EACH = {{ (experts + threads - 1) // threads }}u;

var<storage, read> ids: array<f32>;
var<storage, read> pass_info: array<u32>;
var<storage, read_write> pairs: array<u32>;
var<storage, read_write> tiles: array<vec4<u32>>;

// pairs of each expert, then the place of its next one
var<workgroup> counts: array<atomic<u32>, {{ experts }}>;
// pairs and tiles of the experts of a subgroup
var<workgroup> sums: array<vec2<u32>, {{ threads }}>;

fn expert_of(pair: u32) -> u32 {
    return min(u32(max(ids[pair], 0.0)), EXPERTS - 1u);
}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let thread = subgroup * width + lane;
    let all = pass_info[{{ count_at }}] * {{ used }}u;
    for (var e = thread; e < EXPERTS; e += THREADS) {
        atomicStore(&counts[e], 0u);
    }
    workgroupBarrier();
    for (var p = thread; p < all; p += THREADS) {
        atomicAdd(&counts[expert_of(p)], 1u);
    }
    workgroupBarrier();
    var own = vec2(0u);
    for (var i = 0u; i < EACH; i++) {
        let e = thread * EACH + i;
        if (e < EXPERTS) {
            let count = atomicLoad(&counts[e]);
            own += vec2(count, (count + TILE - 1u) / TILE);
        }
    }
    // pairs and tiles of the experts before
    var before = subgroupExclusiveAdd(own);
    let together = subgroupAdd(own);
    if (lane == 0u) {
        sums[subgroup] = together;
    }
    workgroupBarrier();
    var total = 0u;
    for (var s = 0u; s < subgroups; s++) {
        let sum = sums[s];
        total += sum.y;
        if (s < subgroup) {
            before += sum;
        }
    }
    for (var i = 0u; i < EACH; i++) {
        let e = thread * EACH + i;
        if (e < EXPERTS) {
            let count = atomicLoad(&counts[e]);
            atomicStore(&counts[e], before.x);
            for (var at = 0u; at < count; at += TILE) {
                tiles[before.y] = vec4(e, before.x + at, before.x + min(at + TILE, count), 0u);
                before.y += 1u;
            }
            before.x += count;
        }
    }
    let most = (all + TILE - 1u) / TILE + min(EXPERTS, all);
    for (var t = total + thread; t < most; t += THREADS) {
        tiles[t] = vec4(0u);
    }
    workgroupBarrier();
    for (var p = thread; p < all; p += THREADS) {
        pairs[atomicAdd(&counts[expert_of(p)], 1u)] = p;
    }
}
