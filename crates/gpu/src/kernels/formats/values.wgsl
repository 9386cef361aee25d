{# The weights of a unit as floats, four at a time. #}
{% if blocks %}
fn values(u: Unit, j: u32) -> vec4<f32> {
    let second = j >= 4u;
    let word = select(u.first, u.second, second)[j & 3u];
    let codes = vec4<f32>(unpack4xI8(word) - vec4<i32>(ZERO));
{% if has_min %}
    return select(u.scale.x, u.scale.y, second) * codes + select(u.min.x, u.min.y, second);
{% else %}
    return select(u.scale.x, u.scale.y, second) * codes;
{% endif %}
}
{% elif unit == 8 %}
fn values(u: Unit, j: u32) -> vec4<f32> {
    return select(u.v0, u.v1, j == 1u);
}
{% else %}
fn values(u: Unit, j: u32) -> vec4<f32> {
    return u.v0;
}
{% endif %}
