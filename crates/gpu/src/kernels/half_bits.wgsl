{# Rounding to f16 and quotients, written out because drivers may round in another way. #}
// The bits in f16 of a value that is no NaN, to the nearest, ties to even.
fn half_bits(v: f32) -> u32 {
    let bits = bitcast<u32>(v) & 0x7fffffffu;
    // the sum with 1/2 has steps of 2⁻²⁴, those of f16 below 2⁻¹⁴
    let small = bitcast<u32>(abs(v) + 0.5) - 0x3f000000u;
    let rounded = (bits + 0xfffu + ((bits >> 13u) & 1u) - 0x38000000u) >> 13u;
    var half = select(rounded, small, bits < 0x38800000u);
    half = select(half, 0x7c00u, bits >= 0x477ff000u);
    return half | ((bitcast<u32>(v) >> 16u) & 0x8000u);
}

// a / b for a small integer b
fn quotient(a: f32, b: f32) -> f32 {
    // a division may be off by its last bits; what it leaves is exact, as products of halves of q are
    let q = a / b;
    let upper = bitcast<f32>(bitcast<u32>(q) & 0xfffff000u);
    let left = (a - upper * b) - (q - upper) * b;
    return q + left * (1.0 / b);
}
