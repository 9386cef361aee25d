{# The live inputs of rows, for products of input_major.wgsl, and all that these need of them: a
   workgroup chooses for one side of one row, with `TURNS` vectors of the row a thread. The lists of a
   side, in vectors of 16 bytes:
       1               the factor of the norm
       UNITS           of each unit: live inputs, or those of the halves in 16 bits each; scale; sums of
                       the live codes of the halves, or of all. With nested codes the upper 16 bits are
                       the inputs whose lower halves are live, and the second sum is that of the others
       4 · UNITS       in blocks, of each unit its live inputs in quads, two to a vector: bytes of inputs,
                       and codes. Halves begin at the first and third vector. The upper bits of an input's byte
                       are the bytes by which its place in the quad is after that of its weights in a
                       word (weights/lines.rs), and with nested codes a bit for a live lower half: those
                       inputs come first
       UNIT / 2 · UNITS  in floats, of each unit its live inputs and activations, two to a vector #}
const K = {{ k }}u;
const CANDIDATES = {{ candidates }}u;
const UNITS = {{ units }}u;
const THREADS = {{ threads }}u;
const TURNS = {{ turns }}u;
// units of a turn
const CHUNK = {{ chunk }}u;

var<storage, read> x: array<vec4<f32>>;
var<storage, read> lives: array<u32>;
var<storage, read_write> lists: array<vec4<u32>>;
{% if norm %}
var<storage, read> norm_weight: array<vec4<f32>>;
{% endif %}
{% for s in range(sides) %}
var<storage, read> norms{{ s }}: array<vec4<f32>>;
{% endfor %}

{% if blocks %}
var<workgroup> codes: array<u32, {{ chunk * 8 }}>;
var<workgroup> scales: array<f32, {{ chunk }}>;
var<workgroup> sums: array<atomic<i32>, {{ chunk * sums }}>;
{% endif %}
// a bit for each live input of a unit
var<workgroup> masks: array<atomic<u32>, {{ chunk }}>;
{% if nested %}
// and for each live lower half
var<workgroup> lower_masks: array<atomic<u32>, {{ chunk }}>;
{% endif %}
{% if norm %}
var<workgroup> squares: array<f32, {{ subgroups }}>;
{% include "squares.wgsl" %}
{% endif %}
{# The bins of the choice, and then the quads of a turn. #}
{% set word_count = [2048, chunk * 16 if blocks else 0] | max %}
{% include "select_inputs.wgsl" %}
{% if energy %}
{% include "select_energy.wgsl" %}
{% endif %}

fn norms_of(side: u32, at: u32) -> vec4<f32> {
{% for s in range(1, sides) %}
    if (side == {{ s }}u) {
        return norms{{ s }}[at];
    }
{% endfor %}
    return norms0[at];
}

{% if blocks %}
fn keep_code(r: u32, unit: u32, word: u32, code: u32) {
    codes[unit * 8u + word] = code;
}

fn keep_scale(r: u32, unit: u32, value: vec2<f32>) {
    scales[unit] = value.x;
}

{% include "quantize.wgsl" %}
{% endif %}

{% set vectors = unit // 4 %}
{% if blocks %}
// The sum of those of the four codes of a thread that have a bit.
fn sum_of(ones: u32, thread: u32) -> i32 {
    let bytes = ((ones * 0x00204081u) & 0x01010101u) * 255u;
    return dot4I8Packed(codes[thread] & bytes, 0x01010101u);
}
{% endif %}

// Marks the live ones of the four inputs of a thread{{ ", and of their lower halves" if nested }}.
fn mark(ones: u32, {{ "lower: u32, " if nested }}thread: u32) {
    let local = thread / {{ vectors }}u;
    atomicOr(&masks[local], ones << (thread % {{ vectors }}u * 4u));
{% if nested %}
    atomicOr(&lower_masks[local], lower << (thread % 8u * 4u));
    atomicAdd(&sums[local * 2u + 1u], sum_of(ones & ~lower, thread));
{% endif %}
{% if blocks %}
    atomicAdd(&sums[local{{ " * 2u + thread % 8u / 4u" if halves == 2 }}{{ " * 2u" if nested }}], sum_of(ones, thread));
{% endif %}
}

{% if blocks %}
// Adds some of the four inputs of a thread to the quads of their unit from quad `begin` on, the
// first of them in place `place`. Each quad has words of inputs, with the bits `with_bits`, and
// then words of codes.
fn put(ones: u32, thread: u32, begin: u32, place: u32, with_bits: u32) {
    let word = codes[thread];
    let first = thread % 8u * 4u;
    var inputs = 0u;
    var live_codes = 0u;
    var shift = 0u;
{% for j in range(4) %}
    if ((ones & {{ 2 ** j }}u) != 0u) {
        let slot = place + shift / 8u;
        inputs |= (first + {{ j }}u + (((slot - {{ j }}u) & 3u) << 5u) + with_bits) << shift;
        live_codes |= ((word >> {{ 8 * j }}u) & 255u) << shift;
        shift += 8u;
    }
{% endfor %}
    let at = 2u * (thread / 8u * 8u + begin + place / 4u);
    let by = place % 4u * 8u;
    if (shift > 0u) {
        atomicOr(&words[at], inputs << by);
        atomicOr(&words[at + 1u], live_codes << by);
    }
    if (by + shift > 32u) {
        atomicOr(&words[at + 2u], inputs >> (32u - by));
        atomicOr(&words[at + 3u], live_codes >> (32u - by));
    }
}

// Adds the live ones of the four inputs of a thread to the quads of their unit.
fn enter(ones: u32, {{ "lower: u32, " if nested }}thread: u32) {
    let local = thread / 8u;
    let mask = atomicLoad(&masks[local]);
    let first = thread % 8u * 4u;
    let before = (1u << first) - 1u;
{% if nested %}
    let lower_mask = atomicLoad(&lower_masks[local]);
    put(lower, thread, 0u, countOneBits(lower_mask & before), 128u);
    let place = countOneBits(lower_mask) + countOneBits(mask & ~lower_mask & before);
    put(ones & ~lower, thread, 0u, place, 0u);
{% elif halves == 2 %}
    let half = mask & (0xffffu << (first & 16u));
    put(ones, thread, first / 16u * 4u, countOneBits(half & before), 0u);
{% else %}
    put(ones, thread, 0u, countOneBits(mask & before), 0u);
{% endif %}
}

// A quad with its last live input in the places after it, with the code 0.
fn filled(quad: u32, live: u32) -> vec2<u32> {
    let inputs = atomicLoad(&words[2u * quad]);
    let after = select(0xffffffffu << (8u * (live & 3u)), 0u, live >= 4u || live == 0u);
    let last = ((inputs >> (8u * ((live + 3u) & 3u))) & 255u) * 0x01010101u;
    return vec2(inputs | (last & after), atomicLoad(&words[2u * quad + 1u]));
}
{% else %}
// Writes the live ones of the four inputs of a thread, those at vector `at` of the row.
fn enter(row: u32, ones: u32, thread: u32, at: u32, entries: u32) {
    let mask = atomicLoad(&masks[thread / {{ vectors }}u]);
    let first = thread % {{ vectors }}u * 4u;
    let v = x[row * (K / 4u) + at]{{ " * norm_weight[at]" if norm }};
{% for j in range(4) %}
    if ((ones & {{ 2 ** j }}u) != 0u) {
        let place = countOneBits(mask & ((1u << (first + {{ j }}u)) - 1u));
        let entry = vec2(at * 4u + {{ j }}u, bitcast<u32>(v.{{ ["x", "y", "z", "w"][j] }}));
        let to = entries + at / {{ vectors }}u * {{ unit // 2 }}u + place / 2u;
        if (place % 2u == 0u) {
            lists[to].x = entry.x;
            lists[to].y = entry.y;
        } else {
            lists[to].z = entry.x;
            lists[to].w = entry.y;
        }
    }
{% endfor %}
}
{% endif %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) subgroup_width: u32,
) {
    let thread = subgroup * subgroup_width + lane;
    let side = group.x / TURNS;
    let turn = group.x % TURNS;
    let row = group.y;
    // the number of live candidates, and a bit of rows whose effort is below 1; or with a second bit what
    // squares of scores may be left out, as an f32
    let lives_of = lives[{{ lives_at }}u + row * {{ lives_step }}u];
{% if only_below %}
    if (lives_of >> 31u == 0u) {
        return;
    }
{% endif %}
    let base = row * {{ row_vectors }}u + side * {{ side_vectors }}u;
{% for n in range(turns) %}
    let at{{ n }} = min({{ n * threads }}u + thread, K / 4u - 1u);
    let inside{{ n }} = {{ n * threads }}u + thread < K / 4u;
    let x{{ n }} = x[row * (K / 4u) + at{{ n }}]{{ " * norm_weight[at%s]"|format(n) if norm }};
    let product{{ n }} = x{{ n }} * norms_of(side, at{{ n }});
    let scores{{ n }} = bitcast<vec4<u32>>(product{{ n }}) & vec4(0x7fffffffu);
{% if nested %}
    let lower_scores{{ n }} = bitcast<vec4<u32>>(product{{ n }} * {{ lower }}) & vec4(0x7fffffffu);
{% endif %}
{% endfor %}
{% if norm %}
    // in the order of matvec.wgsl, which has {{ norm_threads }} threads
    var sum_of_squares = 0.0;
    for (var i = thread; thread < {{ norm_threads }}u && i < K / {{ 4 * norm_own }}u; i += {{ norm_threads }}u) {
{% for j in range(norm_own) %}
        sum_of_squares = add_squares(x[row * (K / 4u) + i * {{ norm_own }}u + {{ j }}u], sum_of_squares);
{% endfor %}
    }
    note_squares(0u, sum_of_squares, subgroup, lane);
{% endif %}
    var least = Threshold(0u, 0u);
    var live = lives_of & 0x3fffffffu;
{% if energy %}
    if ((lives_of & 0x40000000u) != 0u) {
        let part = live;
        live = CANDIDATES;
        var mine = 0u;
{% for n in range(turns) %}
        mine = max(mine, max(max(scores{{ n }}.x, scores{{ n }}.y), max(scores{{ n }}.z, scores{{ n }}.w)));
{% endfor %}
        let greatest = greatest_of(mine, subgroup, lane, subgroup_width);
        var total = vec4(0u);
        var rest = vec4(0u);
        // the squares of the scores above those that begin with the threshold, and of all that reach it
        var above = vec4(0u);
        var reached = vec4(0u);
        // all inputs, if a score is not finite
        for (var bit = 0u; bit < {{ 32 + late_bits }}u && greatest < 0x7f800000u; bit++) {
            if (bit == 32u && all(reached == carried(above + square(least.score, greatest)))) {
                // one alone has the score
                break;
            }
            var next = least;
            if (bit < 32u) {
                next.score |= select(0x80000000u >> bit, 0u, bit == 0u);
            } else {
                next.late |= {{ 2 ** (late_bits - 1) }}u >> (bit - 32u);
            }
            var squares_of_thread = vec4(0u);
{% for n in range(turns) %}
            if (inside{{ n }}) {
                squares_of_thread += squares_with(scores{{ n }}, 4u * at{{ n }}, bit, next, greatest);
{% if nested %}
                squares_of_thread += squares_with(lower_scores{{ n }}, K + 4u * at{{ n }}, bit, next, greatest);
{% endif %}
            }
{% endfor %}
            let sum = carried(above + sum_of_all(bit, squares_of_thread, subgroup, lane, subgroup_width));
            if (bit == 0u) {
                total = sum;
                rest = left_out(total, part);
                if (at_least(rest, total)) {
                    live = 1u;
                    break;
                }
            } else if (at_least(carried(sum + rest), total)) {
                least = next;
                reached = sum;
            } else {
                above = sum;
            }
        }
    }
{% endif %}
    var need = live;
    for (var level = 0u; level < 5u && live < CANDIDATES; level++) {
        clear_bins(thread);
        workgroupBarrier();
{% for n in range(turns) %}
        if (inside{{ n }}) {
            count_keys(level, scores{{ n }}, 4u * at{{ n }}, least);
{% if nested %}
            count_keys(level, lower_scores{{ n }}, K + 4u * at{{ n }}, least);
{% endif %}
        }
{% endfor %}
        workgroupBarrier();
        find_bin(need, thread, subgroup, lane, subgroup_width);
        let digit = found[0];
        need = found[1];
        switch level {
            case 0u: { least.score = digit << 20u; }
            case 1u: { least.score |= digit << 10u; }
            case 2u: { least.score |= digit; }
            case 3u: { least.late = digit << 10u; }
            default: { least.late |= digit; }
        }
        if (need == found[2]) {
            break;
        }
    }
    let start = turn * CHUNK;
    let at = turn * THREADS + thread;
    let inside = at < K / 4u;
    var scores = scores0;
{% if nested %}
    var lower_scores = lower_scores0;
{% endif %}
{% for n in range(1, turns) %}
    if (turn == {{ n }}u) {
        scores = scores{{ n }};
{% if nested %}
        lower_scores = lower_scores{{ n }};
{% endif %}
    }
{% endfor %}
    let ones = live_ones(scores, 4u * at, least);
{% if nested %}
    let lower = live_ones(lower_scores, K + 4u * at, least) & ones;
{% endif %}
    if (thread < CHUNK) {
        atomicStore(&masks[thread], 0u);
{% if nested %}
        atomicStore(&lower_masks[thread], 0u);
{% endif %}
{% for h in range(sums if blocks else 0) %}
        atomicStore(&sums[thread * {{ sums }}u + {{ h }}u], 0);
{% endfor %}
    }
{% if blocks %}
    atomicStore(&words[2u * thread], 0u);
    atomicStore(&words[2u * thread + 1u], 0u);
    _ = prepare(0u, row, start, thread);
{% endif %}
    workgroupBarrier();
    if (inside) {
        mark(ones, {{ "lower, " if nested }}thread);
    }
    workgroupBarrier();
{% if blocks %}
    if (inside) {
        enter(ones, {{ "lower, " if nested }}thread);
    }
    workgroupBarrier();
    let pair = thread;
    if (pair < CHUNK * 4u && start + pair / 4u < UNITS) {
        let mask = atomicLoad(&masks[pair / 4u]);
{% if halves == 2 %}
        let half = pair / 2u % 2u;
        let count = countOneBits(mask & (0xffffu << (half * 16u)));
        let quad = pair % 2u;
        let first = pair / 4u * 8u + half * 4u + quad;
{% else %}
        let count = countOneBits(mask);
        let quad = pair % 4u;
        let first = pair / 4u * 8u + quad;
{% endif %}
        let one = filled(first, count - min(count, 4u * quad));
        let two = filled(first + {{ 4 // halves }}u, count - min(count, 4u * quad + {{ 16 // halves }}u));
        lists[base + 1u + UNITS + start * 4u + pair] = vec4(one, two);
    }
    if (thread < CHUNK && start + thread < UNITS) {
        let mask = atomicLoad(&masks[thread]);
{% if halves == 2 %}
        let counts = countOneBits(mask & 0xffffu) | (countOneBits(mask >> 16u) << 16u);
        let all = vec2(atomicLoad(&sums[2u * thread]), atomicLoad(&sums[2u * thread + 1u]));
{% elif nested %}
        let counts = countOneBits(mask) | (countOneBits(atomicLoad(&lower_masks[thread])) << 16u);
        let all = vec2(atomicLoad(&sums[2u * thread]), atomicLoad(&sums[2u * thread + 1u]));
{% else %}
        let counts = countOneBits(mask);
        let all = vec2(atomicLoad(&sums[thread]), 0);
{% endif %}
        // products without a live input are zeros, whatever the scale is
        let scale = select(0.0, scales[thread], counts > 0u);
        lists[base + 1u + start + thread] = vec4(counts, bitcast<u32>(scale), bitcast<vec2<u32>>(all));
    }
{% else %}
    if (inside) {
        enter(row, ones, thread, at, base + 1u + UNITS);
    }
    if (thread < CHUNK && start + thread < UNITS) {
        lists[base + 1u + start + thread] = vec4(countOneBits(atomicLoad(&masks[thread])), 0u, 0u, 0u);
    }
{% endif %}
{% if norm %}
    if (turn == 0u && thread == 0u) {
        lists[base] = vec4(bitcast<u32>(factor(0u, {{ norm_threads }}u / subgroup_width)), 0u, 0u, 0u);
    }
{% endif %}
}
