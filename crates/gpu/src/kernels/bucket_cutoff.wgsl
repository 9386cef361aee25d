{# The cutoff of each row for each of some matrices with sorted buckets (weights/buckets.rs): of the
   magnitudes of the products with the matrix's probes, in ascending order, that of the row's index. A row
   without an index (all bits set) has a cutoff of all bits set. The order of magnitudes is that of their
   bits, as in crates/cpu. With a norm also its factor, which cutoffs do not contain.
   The search counts the products below three candidates at once: two bits of the result a step. #}
const K = {{ k }}u;
const PROBES = {{ probes }}u;
const THREADS = {{ threads }}u;

var<storage, read> x: array<f32>;
var<storage, read> lives: array<u32>;
var<storage, read_write> cutoffs: array<vec2<u32>>;
{% if norm %}
var<storage, read> norm_weight: array<f32>;
var<workgroup> squares: array<f32, {{ subgroups }}>;
{% include "squares.wgsl" %}
{% endif %}
{% for side in sides %}
var<storage, read> m{{ loop.index0 }}: array<u32>;
{% endfor %}
// the place of the product among the words of a row
var<storage, read> place: array<u32>;

// the products below the first and, in the upper half, the second candidate, and below the third: of
// each subgroup, in turn for even and odd steps
var<workgroup> counts: array<vec2<u32>, {{ 2 * subgroups }}>;

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroup_count: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) subgroup_width: u32,
) {
    let thread = subgroup * subgroup_width + lane;
    let side = group.x;
    let row = group.y;
    let word = lives[place[0] + {{ rows_at }}u + row * {{ lives_step }}u];
    if (word >> 31u == 0u) {
        return;
    }
    let index = word & 0x7fffffffu;
{% for i in range(each) %}
    var key{{ i }} = 0xffffffffu;
{% endfor %}
{% for side in sides %}
{% set s = loop.index0 %}
    if (side == {{ s }}u) {
{% for i in range(each) %}
{% set probe = "(thread + %su)"|format(i * threads) %}
        if ({{ probe }} < PROBES) {
            let input = m{{ s }}[{{ side.probes }}u + 2u * {{ probe }}];
            let weight = bitcast<f32>(m{{ s }}[{{ side.probes + 1 }}u + 2u * {{ probe }}]);
            let v = x[row * K + input]{{ " * norm_weight[input]" if norm }};
            key{{ i }} = bitcast<u32>(v * weight) & 0x7fffffffu;
        }
{% endfor %}
    }
{% endfor %}
{% if norm %}
    var sum_of_squares = 0.0;
    for (var i = thread; i < K; i += THREADS) {
        sum_of_squares = fma(x[row * K + i], x[row * K + i], sum_of_squares);
    }
    note_squares(0u, sum_of_squares, subgroup, lane);
{% endif %}
    // the greatest value with at most as many products below it as the index
    var found = 0u;
    for (var step = 0u; step < 16u; step++) {
        let shift = 30u - 2u * step;
        let candidates = vec3(found) | (vec3(1u, 2u, 3u) << vec3(shift));
        var below = vec2(0u);
{% for i in range(each) %}
        below += vec2(
            select(0u, 1u, key{{ i }} < candidates.x) + select(0u, 65536u, key{{ i }} < candidates.y),
            select(0u, 1u, key{{ i }} < candidates.z),
        );
{% endfor %}
        let own = vec2(subgroupAdd(below.x), subgroupAdd(below.y));
        let turn = (step & 1u) * {{ subgroups }}u;
        if (lane == 0u) {
            counts[turn + subgroup] = own;
        }
        workgroupBarrier();
        var all = vec2(0u);
        for (var i = lane; i < subgroup_count; i += subgroup_width) {
            all += counts[turn + i];
        }
        all = vec2(subgroupAdd(all.x), subgroupAdd(all.y));
        if (all.y <= index) {
            found = candidates.z;
        } else if (all.x >> 16u <= index) {
            found = candidates.y;
        } else if ((all.x & 65535u) <= index) {
            found = candidates.x;
        }
    }
    if (thread == 0u) {
        let factor_of = {{ "bitcast<u32>(factor(0u, subgroup_count))" if norm else "0x3f800000u" }};
        cutoffs[row * {{ sides | length }}u + side] = vec2(found, factor_of);
    }
}
