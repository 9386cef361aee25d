{# The weights of a unit in f16, for matrix cores: `halves0`, `halves1` … return four each. #}
{% if blocks %}
// Four weights of signed codes. The bits 0x6400 + u are those of the f16 number 1024 + u, so that no
// integer is converted; u is the code + 128.
fn four{{ kind }}(codes: u32, scale: f32{{ ", least: f32" if has_min }}) -> vec4<f16> {
    let even = unpack2x16float((codes & 0x00ff00ffu) ^ 0x64806480u);
    let odd = unpack2x16float(((codes >> 8u) & 0x00ff00ffu) ^ 0x64806480u);
    let exact = vec4<f16>(vec4(even.x, odd.x, even.y, odd.y)) - vec4<f16>({{ 1152 + zero }}.0h);
{% if has_min %}
    return fma(exact, vec4<f16>(f16(scale)), vec4<f16>(f16(least)));
{% else %}
    return exact * f16(scale);
{% endif %}
}
{% for j in range(8) %}
{% set side = "x" if j < 4 else "y" %}
fn halves{{ j }}{{ kind }}(u: Unit{{ kind }}) -> vec4<f16> {
    return four{{ kind }}(u.{{ "first" if j < 4 else "second" }}.{{ ["x", "y", "z", "w"][j % 4] }}, u.scale.{{ side }}{{ ", u.min." ~ side if has_min }});
}
{% endfor %}
{% else %}
{% for j in range(unit // 4) %}
fn halves{{ j }}{{ kind }}(u: Unit{{ kind }}) -> vec4<f16> {
    return vec4<f16>(u.v{{ j }});
}
{% endfor %}
{% endif %}
