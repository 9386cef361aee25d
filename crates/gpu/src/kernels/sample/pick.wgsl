{# The bin of a histogram in which a cumulative sum, from the greatest digit on, reaches a goal. Sums
   are three limbs of 20 bits, the lowest first, so that thousands of them are added without a carry.
   The including file defines `fn bin(i: u32) -> vec3<u32>`. #}
const BINS_EACH = BINS / {{ threads }}u;

fn carried(a: vec3<u32>) -> vec3<u32> {
    let y = a.y + (a.x >> 20u);
    return vec3(a.x & 0xfffffu, y & 0xfffffu, a.z + (y >> 20u));
}

fn reaches(a: vec3<u32>, goal: vec3<u32>) -> bool {
    if (a.z != goal.z) {
        return a.z > goal.z;
    }
    if (a.y != goal.y) {
        return a.y > goal.y;
    }
    return a.x >= goal.x;
}

struct Pick {
    bin: u32,
    // the sum before the bin, and with it
    before: vec3<u32>,
    after: vec3<u32>,
}

var<workgroup> sums: array<vec3<u32>, {{ threads // 4 }}>;
var<workgroup> picked: Pick;

// The sum of one thread's bins, the sum before them, and the sum of all bins.
struct Prefix {
    before: vec3<u32>,
    own: vec3<u32>,
    all: vec3<u32>,
}

fn prefix_of(thread: u32, subgroup: u32, subgroups: u32, lane: u32, width: u32) -> Prefix {
    var own = vec3(0u);
    for (var i = 0u; i < BINS_EACH; i++) {
        own += bin(BINS - 1u - thread * BINS_EACH - i);
    }
    own = carried(own);
    var before = subgroupExclusiveAdd(own);
    if (lane == width - 1u) {
        sums[subgroup] = carried(before + own);
    }
    workgroupBarrier();
    var all = vec3(0u);
    for (var i = 0u; i < subgroups; i++) {
        all += sums[i];
        before += select(vec3(0u), sums[i], i < subgroup);
    }
    return Prefix(carried(before), own, carried(all));
}

// The bin with which the sum, `before` at first, reaches the goal; the last if none does.
fn pick(prefix: Prefix, before: vec3<u32>, goal: vec3<u32>, thread: u32) -> Pick {
    var sum = carried(before + prefix.before);
    let end = carried(sum + prefix.own);
    if (!reaches(sum, goal) && (reaches(end, goal) || thread == {{ threads - 1 }}u)) {
        var i = BINS - 1u - thread * BINS_EACH;
        var next = carried(sum + bin(i));
        while (i > 0u && !reaches(next, goal)) {
            i -= 1u;
            sum = next;
            next = carried(sum + bin(i));
        }
        picked = Pick(i, sum, next);
    }
    return workgroupUniformLoad(&picked);
}
