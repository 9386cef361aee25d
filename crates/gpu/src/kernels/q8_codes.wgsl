{# Codes and scales of Q8_0, the same as those of the CPU bit for bit: the scale of a block is its
   greatest magnitude / 127 in f16, a code the nearest integer to x / scale, ties away from zero. #}
// The scale of a block whose greatest magnitude has the bits `most`; NaN is kept.
fn block_scale(most: u32) -> f32 {
    let largest = bitcast<f32>(most);
    // rounded as a division should be, which may be off by its last bits
    let q = largest / 127.0;
    let corrected = fma(fma(-q, 127.0, largest), 1.0 / 127.0, q);
    let scale = select(largest, corrected, most < 0x7f800000u);
    return unpack2x16float(pack2x16float(vec2(scale, 0.0))).x;
}

// Four codes of a block with a scale.
fn codes_of(v: vec4<f32>, scale: f32) -> u32 {
    let m = abs(v);
    let bits = bitcast<u32>(scale);
    var c = floor(min(m / scale, vec4(200.0)) + 0.5);
    // the division may be off by its last bits; products of the scale and halves are exact
    c -= select(vec4(0.0), vec4(1.0), m < (c - 0.5) * scale);
    c += select(vec4(0.0), vec4(1.0), m >= (c + 0.5) * scale);
    c = select(c, select(vec4(0.0), vec4(200.0), m > vec4(0.0)), bits == 0u);
    // a block with an infinity or a NaN has no codes
    c = select(vec4(0.0), c, bits < 0x7f800000u);
    return pack4xI8(vec4<i32>(select(min(c, vec4(127.0)), -min(c, vec4(128.0)), v < vec4(0.0))));
}
