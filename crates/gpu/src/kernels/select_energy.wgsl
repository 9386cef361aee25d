{# The choice of the fewest inputs whose squared scores make up a share of the sum of all. Squares are
   the whole numbers of crates/cpu, so that sums are the same in any order: numbers below 2⁶⁴ in four
   limbs of 16 bits, of which the last can have more. The including file defines THREADS, and
   select_inputs.wgsl the keys. #}
var<workgroup> square_sums: array<vec4<u32>, {{ 2 * subgroups }}>;

// The same number, with what limbs have over 16 bits in the next.
fn carried(n: vec4<u32>) -> vec4<u32> {
    let y = n.y + (n.x >> 16u);
    let z = n.z + (y >> 16u);
    return vec4(n.x & 0xffffu, y & 0xffffu, z & 0xffffu, n.w + (z >> 16u));
}

fn shifted_right(n: vec4<u32>, by: u32) -> vec4<u32> {
    var limbs = n;
    var bits = by;
    for (; bits >= 16u; bits -= 16u) {
        limbs = vec4(limbs.y, limbs.z, limbs.w & 0xffffu, limbs.w >> 16u);
    }
    let above = vec4(limbs.y, limbs.z, limbs.w, 0u);
    return (limbs >> vec4(bits)) | ((above << vec4(16u - bits)) & vec4(0xffffu));
}

fn at_least(a: vec4<u32>, b: vec4<u32>) -> bool {
    if (a.w != b.w) {
        return a.w > b.w;
    }
    if (a.z != b.z) {
        return a.z > b.z;
    }
    if (a.y != b.y) {
        return a.y > b.y;
    }
    return a.x >= b.x;
}

// The square of a score, by its bits and those of the greatest: that of the significand, shifted by the
// difference of the exponents and by four bits.
fn square(score: u32, greatest: u32) -> vec4<u32> {
    let significand = (score & 0x7fffffu) | select(0u, 0x800000u, (score >> 23u) > 0u);
    let shift = 4u + 2u * (max(greatest >> 23u, 1u) - max(score >> 23u, 1u));
    if (shift >= 48u) {
        return vec4(0u);
    }
    let low = significand & 0xffffu;
    let high = significand >> 16u;
    let between = 2u * low * high;
    let first = low * low;
    let word = first + (between << 16u);
    let next = high * high + (between >> 16u) + select(0u, 1u, word < first);
    let words = select(vec2(word, next), vec2(next, 0u), shift >= 32u);
    let by = shift % 32u;
    // without a shift the second word is 0
    let below = (words.x >> by) | (words.y << ((32u - by) % 32u));
    return vec4(below & 0xffffu, below >> 16u, words.y >> by, 0u);
}

// The part of a sum that may be left out, by the bits of an f32 above 2⁻⁵⁴ and at most 1.
fn left_out(sum: vec4<u32>, part: u32) -> vec4<u32> {
    let significand = (part & 0x7fffffu) | 0x800000u;
    // by digits of 12 bits
    let second = shifted_right(carried(sum * (significand & 4095u)), 12u);
    return shifted_right(carried(sum * (significand >> 12u) + second), 138u - (part >> 23u));
}

// The squares of those of four scores that have the first `bit` bits of a threshold: the bits of its
// score from the highest on, which is always 0, and then those of ties.
fn squares_with(scores: vec4<u32>, first: u32, bit: u32, least: Threshold, greatest: u32) -> vec4<u32> {
    let shift = vec4(select({{ 32 + late_bits - 1 }}u - bit, 31u - bit, bit < 32u));
    let late = vec4(CANDIDATES - 1u - first) - vec4(0u, 1u, 2u, 3u);
    let by_late = (scores == vec4(least.score)) & ((late >> shift) == (vec4(least.late) >> shift));
    let by_score = (scores >> shift) == (vec4(least.score) >> shift);
    let same = select(by_late, by_score, bit < 32u);
    var sum = vec4(0u);
{% for c in ["x", "y", "z", "w"] %}
    if (same.{{ c }}) {
        sum += square(scores.{{ c }}, greatest);
    }
{% endfor %}
    return sum;
}

// The greatest number of all threads.
fn greatest_of(mine: u32, subgroup: u32, lane: u32, width: u32) -> u32 {
    let most = subgroupMax(mine);
    if (lane == 0u) {
        square_sums[{{ subgroups }}u + subgroup].x = most;
    }
    workgroupBarrier();
    var all = 0u;
    for (var i = lane; i < (THREADS + width - 1u) / width; i += width) {
        all = max(all, square_sums[{{ subgroups }}u + i].x);
    }
    return subgroupMax(all);
}

// The sum of the numbers of all threads. Rounds alternate between two places, so that one barrier is
// enough: those of an odd bit have been read before the barrier of the next.
fn sum_of_all(bit: u32, mine: vec4<u32>, subgroup: u32, lane: u32, width: u32) -> vec4<u32> {
    let place = bit % 2u * {{ subgroups }}u;
    let sum = subgroupAdd(carried(mine));
    if (lane == 0u) {
        square_sums[place + subgroup] = sum;
    }
    workgroupBarrier();
    var all = vec4(0u);
    for (var i = lane; i < (THREADS + width - 1u) / width; i += width) {
        all += square_sums[place + i];
    }
    return carried(subgroupAdd(all));
}
