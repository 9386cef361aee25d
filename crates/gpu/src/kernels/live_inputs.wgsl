{# The choice of the live inputs of a row in input_major.wgsl, and their lists in workgroup memory. #}
// The live inputs of this thread's vectors of the row.
struct Live {
{% for n in range(turns) %}
    ones{{ n }}: u32,
{% endfor %}
}

fn choose(side: u32, row: u32, live: u32, thread: u32, subgroup: u32, lane: u32) -> Live {
    var chosen: Live;
    if (live >= K) {
{% for n in range(turns) %}
        chosen.ones{{ n }} = select(0u, 15u, thread + {{ n * threads }}u < K / 4u);
{% endfor %}
        return chosen;
    }
{% for n in range(turns) %}
    let at{{ n }} = min(thread + {{ n * threads }}u, K / 4u - 1u);
    let v{{ n }} = x[row * (K / 4u) + at{{ n }}]{{ " * norm_weight[at%s]"|format(n) if norm }};
    let scores{{ n }} = bitcast<vec4<u32>>(v{{ n }} * norms_of(side, at{{ n }})) & vec4(0x7fffffffu);
{% endfor %}
    var least = Threshold(0u, 0u);
    var need = live;
    for (var level = 0u; level < 5u; level++) {
        clear_bins(thread);
        workgroupBarrier();
{% for n in range(turns) %}
        if (thread + {{ n * threads }}u < K / 4u) {
            count_keys(level, scores{{ n }}, 4u * at{{ n }}, least);
        }
{% endfor %}
        workgroupBarrier();
        find_bin(need, thread, subgroup, lane);
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
{% for n in range(turns) %}
    chosen.ones{{ n }} = select(0u, live_ones(scores{{ n }}, 4u * at{{ n }}, least), thread + {{ n * threads }}u < K / 4u);
{% endfor %}
    return chosen;
}

{% set vectors = unit // 4 %}
// Marks the live inputs of four, those at vector `at` of the row.
fn mark(ones: u32, at: u32) {
    let unit = at / {{ vectors }}u;
    if (!is_local(unit)) {
        return;
    }
    let local = local_of(unit);
    atomicOr(&masks[local], ones << (at % {{ vectors }}u * 4u));
{% if blocks %}
    let bytes = ((ones * 0x00204081u) & 0x01010101u) * 255u;
    let sum = dot4I8Packed(codes[local * 8u + at % 8u] & bytes, 0x01010101u);
    atomicAdd(&sums[local{{ " * 2u + at % 8u / 4u" if halves == 2 }}], sum);
{% endif %}
}

// Writes the entries of the live ones of four inputs, those at vector `at` of the row.
fn enter(row: u32, ones: u32, at: u32) {
    let unit = at / {{ vectors }}u;
    if (!is_local(unit)) {
        return;
    }
    let local = local_of(unit);
    let mask = atomicLoad(&masks[local]);
{% if blocks %}
    let word = codes[local * 8u + at % 8u];
{% else %}
    let v = x[row * (K / 4u) + at]{{ " * norm_weight[at]" if norm }};
{% endif %}
{% for j in range(4) %}
    if ((ones & {{ 2 ** j }}u) != 0u) {
        let input = at % {{ vectors }}u * 4u + {{ j }}u;
{% if not blocks %}
        let place = local * {{ unit }}u + countOneBits(mask & ((1u << input) - 1u));
        entries[place] = at * 4u + {{ j }}u;
        floats[place] = v.{{ ["x", "y", "z", "w"][j] }};
{% else %}
{% if halves == 2 %}
        let half = mask & (0xffffu << (input & 16u));
        let begin = input & 16u;
{% else %}
        let half = mask;
        let begin = 0u;
{% endif %}
        let before = countOneBits(half & ((1u << input) - 1u));
        let place = local * 32u + begin + before;
        let code = (word >> {{ 8 * j }}u) & 255u;
        let odd = before & 1u;
        entries[place] = (code << (odd * 8u)) | (input << (16u + odd * 8u));
        // the last pair is filled up with its own input and the code 0
        if (odd == 0u && before + 1u == countOneBits(half)) {
            entries[place + 1u] = input << 24u;
        }
{% endif %}
    }
{% endfor %}
}
