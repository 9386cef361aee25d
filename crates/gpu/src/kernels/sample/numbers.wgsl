{# The whole numbers of crates/sampling/src/fixed.rs, bit for bit: but for the difference of
   two logits, which is rounded the same everywhere, no float decides what is chosen. #}
// The upper half of a product, from products of halves: WGSL has no wider integers.
fn mulhi(a: u32, b: u32) -> u32 {
    let al = a & 0xffffu;
    let ah = a >> 16u;
    let bl = b & 0xffffu;
    let bh = b >> 16u;
    let low = ah * bl + ((al * bl) >> 16u);
    let middle = al * bh + (low & 0xffffu);
    return ah * bh + (low >> 16u) + (middle >> 16u);
}

fn logit_of(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key & 0x7fffffffu, (key >> 31u) == 1u));
}

// The distance of two logits, given their keys, times mantissa · 2^exponent (Scale::times).
// Infinities are told by their bits, because some compilers take it that there are none.
fn distance(greatest: u32, key: u32, mantissa: u32, exponent: i32) -> u32 {
    if (key == greatest) {
        return 0u;
    }
    if (greatest == 0xff800000u || key == 0x007fffffu) {
        return 0xffffffffu;
    }
    let bits = bitcast<u32>(logit_of(greatest) - logit_of(key));
    let size = bits >> 23u;
    let shift = i32(size) - 126 + exponent;
    if (size == 0u) {
        return 0u;
    }
    if (size >= 255u || shift > 0) {
        return 0xffffffffu;
    }
    if (shift < -31) {
        return 0u;
    }
    return mulhi((bits << 8u) | 0x80000000u, mantissa) >> u32(-shift);
}

// The distance that top-p and min-p go by.
fn natural(greatest: u32, key: u32) -> u32 {
    return distance(greatest, key, {{ natural.mantissa }}u, {{ natural.exponent }});
}

// 2^-distance in units of 2⁻³¹.
fn weight(distance: u32) -> u32 {
    let f = distance << {{ 32 - fraction }}u;
    var sum = 0u;
{% for c in exp2 | reverse %}
    sum = {{ c }}u - mulhi(f, sum);
{% endfor %}
    return (0x80000000u - mulhi(f, sum)) >> min(distance >> {{ fraction }}u, 31u);
}
