{# The noise of crates/sampling/src/noise.rs, bit for bit. #}
struct Log {
    upper: bool,
    t: u32,
    factor: u32,
}

// The parts of log2(m / 2³¹).
fn log_of(m: u32) -> Log {
    let upper = m >= 0xc0000000u;
    let t = select(m << 1u, ~m + 1u, upper);
    let s = select(0x40000000u + t, 0x40000000u - t, upper);
    var sum = 0u;
{% for c in log2 | reverse %}
    sum = {{ c }}u - mulhi(s, sum);
{% endfor %}
    return Log(upper, t, sum);
}

// -log2(-log2(u / 2³²)) in units of 2⁻²⁵.
fn double_log(u: u32) -> i32 {
    let zeros = countLeadingZeros(u);
    let inner = log_of(u << zeros);
    let near = inner.upper && zeros == 0u;
    // mulhi(t << n, factor) where all digits are needed, else the whole logarithm
    let n = select(0u, countLeadingZeros(inner.t), near);
    let part = mulhi(inner.t << n, inner.factor);
    let below = ((zeros + 1u) << 26u) - (part >> 4u);
    let whole = select(below, (zeros << 26u) + (part >> 4u), inner.upper);
    let number = select(whole, part, near);
    let exponent = select(-26, -30 - i32(n), near);
    let more = countLeadingZeros(number);
    let outer = log_of(number << more);
    let fraction = i32(mulhi(outer.t, outer.factor) >> {{ 30 - fraction }}u);
    let power = exponent + 31 - i32(more);
    if (outer.upper) {
        return fraction - ((power + 1) << {{ fraction }}u);
    }
    return -fraction - (power << {{ fraction }}u);
}

// Philox4x32-10: the random words of four tokens in a row, of which `four` is the first divided by
// four.
fn words(four: u32) -> vec4<u32> {
    var counter = vec4(four, state.index_low, state.index_high, 0u);
    var key = rule.seed;
    for (var i = 0u; i < 10u; i++) {
        let high0 = mulhi(0xD2511F53u, counter.x);
        let high1 = mulhi(0xCD9E8D57u, counter.z);
        counter = vec4(
            high1 ^ counter.y ^ key.x,
            0xCD9E8D57u * counter.z,
            high0 ^ counter.w ^ key.y,
            0xD2511F53u * counter.x,
        );
        key += vec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return counter;
}

// The value of a token in the draw, as a number above 0 that orders like it: the noise is Gumbel's.
fn drawn(word: u32, greatest: u32, key: u32) -> u32 {
    let away = min(distance(greatest, key, rule.mantissa, rule.exponent), {{ far }}u);
    let value = double_log(word | 1u) - i32(away);
    return bitcast<u32>(value) ^ 0x80000000u;
}
