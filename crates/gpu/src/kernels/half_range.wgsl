{# Four f32 as f16. #}
// Values beyond the range of f16 become its greatest value rather than an infinity, so that an
// outlier loses accuracy and not the whole row; NaN is kept.
fn halved(v: vec4<f32>) -> vec2<u32> {
    let is_nan = (bitcast<vec4<u32>>(v) & vec4(0x7fffffffu)) > vec4(0x7f800000u);
    let kept = select(clamp(v, vec4(-65504.0), vec4(65504.0)), v, is_nan);
    return vec2(pack2x16float(kept.xy), pack2x16float(kept.zw));
}
