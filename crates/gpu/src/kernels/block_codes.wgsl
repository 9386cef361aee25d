{# Codes and factors of a block of 32 keys or values in 4 or 5 bits, as ggml rounds them
   (`quantize_row_*_ref`). `side` says which. #}
// The numbers that codes are computed with, and the bits in f16 of the scale and, in the upper half, the minimum.
struct Factors_{{ side.of }} {
    inverse: f32,
    least: f32,
    bits: u32,
}

fn factors_of_{{ side.of }}(x: array<vec4<f32>, 8>) -> Factors_{{ side.of }} {
    var block = x;
    var most = 0u;
    var extreme = 0.0;
    var least = block[0].x;
    var greatest = least;
    for (var i = 0u; i < 8u; i++) {
        let four = block[i];
        for (var n = 0u; n < 4u; n++) {
            let magnitude = bitcast<u32>(abs(four[n]));
            // the first of equal magnitudes
            extreme = select(extreme, four[n], magnitude > most);
            most = max(most, magnitude);
            least = select(least, four[n], four[n] < least);
            greatest = select(greatest, four[n], four[n] > greatest);
        }
    }
    // a block with an infinity or a NaN has no values
    if (most >= 0x7f800000u) {
        return Factors_{{ side.of }}(0.0, 0.0, 0x7e00u);
    }
{% if side.uneven %}
    if (abs(extreme) < 1e-15) {
        return Factors_{{ side.of }}(0.0, 0.0, 0u);
    }
    let inverse = 1.0 / quotient(extreme, {{ level_list[0] }}.0);
    var products = 0.0;
    var squares = 0.0;
    for (var i = 0u; i < 8u; i++) {
        let four = block[i];
        let level = levels_of(pack4xU8({{ side.of }}_codes(four, Factors_{{ side.of }}(inverse, 0.0, 0u))));
        for (var n = 0u; n < 4u; n++) {
            let weighted = four[n] * four[n] * level[n];
            products += weighted * four[n];
            squares += weighted * level[n];
        }
    }
    return Factors_{{ side.of }}(inverse, 0.0, half_bits(products / squares));
{% else %}
{% if side.has_min %}
    let scale = quotient(greatest - least, {{ 2 ** side.bits - 1 }}.0);
    let bits = half_bits(scale) | (half_bits(least) << 16u);
{% else %}
    let scale = extreme * {{ -1 / side.offset }};
    let bits = half_bits(scale);
{% endif %}
    // below, the reciprocal is no finite number
    let inverse = select(1.0 / scale, 0.0, abs(scale) < 3e-39);
    return Factors_{{ side.of }}(inverse, least, bits);
{% endif %}
}

// Four codes of a block.
fn {{ side.of }}_codes(x: vec4<f32>, factors: Factors_{{ side.of }}) -> vec4<u32> {
{% if side.uneven %}
    let scaled = x * factors.inverse;
    var codes = vec4(0u);
{% for i in range(15) %}
    codes += select(vec4(0u), vec4(1u), scaled >= vec4({{ (level_list[i] + level_list[i + 1]) / 2 }}));
{% endfor %}
{% elif side.has_min %}
    let codes = vec4<u32>(clamp((x - factors.least) * factors.inverse + 0.5, vec4(0.0), vec4({{ 2 ** side.bits - 1 }}.0)));
{% else %}
    let codes = vec4<u32>(clamp(x * factors.inverse + {{ side.offset }}.5, vec4(0.0), vec4({{ 2 ** side.bits - 1 }}.0)));
{% endif %}
    return select(codes, vec4(0u), factors.bits == 0x7e00u);
}
