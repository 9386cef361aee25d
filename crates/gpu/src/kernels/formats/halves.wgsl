{# The weights of a unit in f16, for matrix cores: `halves0`, `halves1` … return four each. #}
{% if blocks %}
// The zero point is part of the offset, so that a weight is one multiply-add with one rounding: zero
// points are powers of two.
fn four(codes: u32, scale: f32, offset: f32) -> vec4<f16> {
    return vec4<f16>(fma(vec4(scale), vec4<f32>(unpack4xI8(codes)), vec4(offset)));
}
{% for j in range(8) %}
{% set side = "x" if j < 4 else "y" %}
fn halves{{ j }}(u: Unit) -> vec4<f16> {
    let offset = {% if has_min %}u.min.{{ side }}{% elif zero %}-f32(ZERO) * u.scale.{{ side }}{% else %}0.0{% endif %};
    return four(u.{{ "first" if j < 4 else "second" }}.{{ ["x", "y", "z", "w"][j % 4] }}, u.scale.{{ side }}, offset);
}
{% endfor %}
{% else %}
{% for j in range(unit // 4) %}
fn halves{{ j }}(u: Unit) -> vec4<f16> {
    return vec4<f16>(u.v{{ j }});
}
{% endfor %}
{% endif %}
