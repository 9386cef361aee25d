{# The Gumbel noise of crates/sampling/src/noise.rs, bit for bit. #}
var<private> noise_seed: vec2<u32>;
var<private> noise_index: vec2<u32>;

fn begin_noise(want: u32, index: vec2<u32>) {
    noise_seed = vec2(param(want, SEED_LOW), param(want, SEED_HIGH));
    noise_index = index;
}

struct Log {
    upper: bool,
    t: u32,
    factor: u32,
}

// log2(m / 2³¹) for an m with the highest bit set: t · factor, or 1 - t · factor with `upper`.
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
    // mulhi(t << n, factor) where all digits are needed, else the logarithm itself
    let n = select(0u, countLeadingZeros(inner.t), near);
    let product = mulhi(inner.t << n, inner.factor);
    let below = ((zeros + 1u) << 26u) - (product >> 4u);
    let whole = select(below, (zeros << 26u) + (product >> 4u), inner.upper);
    let number = select(whole, product, near);
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

// Philox4x32-10: the random words of the four tokens from 4 · four on.
fn words(four: u32) -> vec4<u32> {
    var counter = vec4(four, noise_index, 0u);
    var key = noise_seed;
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

// The noise of a token minus its distance, as an integer above 0 of the same order.
fn drawn(want: u32, word: u32, greatest: u32, key: u32) -> u32 {
    let mantissa = param(want, MANTISSA);
    let exponent = i32(param(want, EXPONENT));
    let away = min(distance(greatest, key, mantissa, exponent), {{ far }}u);
    let value = double_log(word | 1u) - i32(away);
    return bitcast<u32>(value) ^ 0x80000000u;
}
