{# Weights in F32, F16 and BF16: a unit is 16 bytes of one row. Rows are padded with zeros to whole
   units. #}
var<storage, read> low{{ w }}: array<vec4<u32>>;

{% if defines %}
struct Unit{{ kind }} {
{% for j in range(unit // 4) %}
    v{{ j }}: vec4<f32>,
{% endfor %}
}

// A unit as it is loaded from memory, which is decoded later.
struct Raw{{ kind }} {
    low: vec4<u32>,
}

fn decode{{ kind }}(raw: Raw{{ kind }}) -> Unit{{ kind }} {
    let c = raw.low;
{% if format == "F32" %}
    return Unit{{ kind }}(bitcast<vec4<f32>>(c));
{% elif format == "F16" %}
    return Unit{{ kind }}(
        vec4(unpack2x16float(c.x), unpack2x16float(c.y)),
        vec4(unpack2x16float(c.z), unpack2x16float(c.w)),
    );
{% else %}
    return Unit{{ kind }}(
        bitcast<vec4<f32>>(vec4(c.x << 16u, c.x & 0xffff0000u, c.y << 16u, c.y & 0xffff0000u)),
        bitcast<vec4<f32>>(vec4(c.z << 16u, c.z & 0xffff0000u, c.w << 16u, c.w & 0xffff0000u)),
    );
{% endif %}
}
{% endif %}

fn fetch{{ w }}(row: u32, unit: u32) -> Raw{{ kind }} {
    return Raw{{ kind }}(low{{ w }}[row * UNITS + unit]);
}
