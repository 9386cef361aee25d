{# The fixed-point arithmetic of crates/sampling/src/fixed_point.rs, bit for bit. The only f32
   operation of a draw is the difference of two logits, whose rounding is the same everywhere. #}
// The upper 32 bits of a product, from products of halves: WGSL has no wider integers.
fn mulhi(a: u32, b: u32) -> u32 {
    let al = a & 0xffffu;
    let ah = a >> 16u;
    let bl = b & 0xffffu;
    let bh = b >> 16u;
    let low = ah * bl + ((al * bl) >> 16u);
    let middle = al * bh + (low & 0xffffu);
    return ah * bh + (low >> 16u) + (middle >> 16u);
}

// The distance of two logits, given their keys, times mantissa · 2^exponent (Scale::times).
// Infinities are recognized by their bits, because compilers may assume that there are none.
fn distance(greatest: u32, key: u32, mantissa: u32, exponent: i32) -> u32 {
    if (key == greatest) {
        return 0u;
    }
    if (greatest == 0xff800000u || key == 0x007fffffu) {
        return 0xffffffffu;
    }
    let bits = bitcast<u32>(bitcast<f32>(logit_bits(greatest)) - bitcast<f32>(logit_bits(key)));
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

// The distance by which top-p and min-p filter.
fn natural(greatest: u32, key: u32) -> u32 {
    return distance(greatest, key, {{ natural.mantissa }}u, {{ natural.exponent }});
}

// 2^-f in units of 2⁻³¹ for the fraction f of a distance.
fn mantissa_of(distance: u32) -> u32 {
    let f = distance << {{ 32 - fraction }}u;
    var sum = 0u;
{% for c in exp2 | reverse %}
    sum = {{ c }}u - mulhi(f, sum);
{% endfor %}
    return 0x80000000u - mulhi(f, sum);
}

// 2^-distance in units of 2⁻³¹.
fn weight(distance: u32) -> u32 {
    let octaves = distance >> {{ fraction }}u;
    return select(0u, mantissa_of(distance) >> min(octaves, 31u), octaves < 32u);
}
