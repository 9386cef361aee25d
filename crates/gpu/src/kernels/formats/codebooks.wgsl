{# The decoding of a unit whose codes are in a codebook: the body of `decode` in blocks.wgsl. `grid` has
   the bytes of an entry, 4 in one word or 8 in two. #}
    let c = raw.low;
    let d = unpack2x16float(raw.d >> (((raw.i >> 3u) & 1u) * 16u)).x;
{% if sub_bytes == 2 %}
    let sub = raw.sub >> ((raw.i & 1u) * 16u);
{% elif sub_bytes == 1 %}
    let sub = raw.sub >> ((raw.i & 3u) * 8u);
{% endif %}
{% if format == "IQ3_S" %}
    // the ninth bit of index j is bit j of the first byte
    let upper = vec4(sub) << vec4(8u, 7u, 6u, 5u);
    let a = ((vec4(c.x) >> bytes) & vec4(255u)) | (upper & vec4(256u));
    let b = ((vec4(c.y) >> bytes) & vec4(255u)) | ((upper >> vec4(4u)) & vec4(256u));
{% elif format == "IQ3_XXS" %}
    let a = (vec4(c.x) >> bytes) & vec4(255u);
    let b = (vec4(c.y) >> bytes) & vec4(255u);
{% elif format == "IQ2_S" %}
    let index = ((vec4(c.x) >> bytes) & vec4(255u)) | ((vec4(sub) << vec4(8u, 6u, 4u, 2u)) & vec4(768u));
{% elif format == "IQ2_XS" %}
    let index = vec4(c.x, c.x >> 16u, c.y, c.y >> 16u) & vec4(511u);
{% elif format == "IQ2_XXS" %}
    let index = (vec4(c.x) >> bytes) & vec4(255u);
{% elif format == "IQ1_S" %}
    let index = ((vec4(c) >> bytes) & vec4(255u)) | ((vec4(sub << 8u) >> vec4(0u, 3u, 6u, 9u)) & vec4(1792u));
{% else %}
    let halves = vec4(sub) >> vec4(0u, 4u, 8u, 12u);
    let index = ((vec4(c) >> bytes) & vec4(255u)) | ((halves << vec4(8u)) & vec4(1792u));
{% endif %}
{% if format in ["IQ3_S", "IQ3_XXS"] %}
    let first = vec4(grid{{ at }}a.x{{ close }}, grid{{ at }}a.y{{ close }}, grid{{ at }}a.z{{ close }}, grid{{ at }}a.w{{ close }});
    let second = vec4(grid{{ at }}b.x{{ close }}, grid{{ at }}b.y{{ close }}, grid{{ at }}b.z{{ close }}, grid{{ at }}b.w{{ close }});
{% else %}
    let first = vec4(grid{{ at }}index.x{{ close }}, grid{{ at }}index.y{{ close }});
    let second = vec4(grid{{ at }}index.z{{ close }}, grid{{ at }}index.w{{ close }});
{% endif %}
{% if format in ["IQ1_S", "IQ1_M"] %}
    // the codes of a negative δ are less by 2
{% if format == "IQ1_S" %}
    let less = vec4(((sub >> 15u) & 1u) * 0x02020202u);
    let scale = vec2(f32(((sub >> 11u) & 14u) | 1u));
    return Unit{{ kind }}(first - less, second - less, 0.125 * d * scale);
{% else %}
    let less = ((halves >> vec4(3u)) & vec4(1u)) * 0x02020202u;
    let part = raw.high >> ((raw.i & 3u) * 8u);
    let scale = vec2(f32(((part << 1u) & 14u) | 1u), f32(((part >> 3u) & 14u) | 1u));
    return Unit{{ kind }}(first - less.xxyy, second - less.zzww, 0.125 * d * scale);
{% endif %}
{% else %}
{% if format == "IQ3_S" %}
    let signs = raw.high;
    let scale = vec2(d * f32(((sub >> 7u) & 30u) | 1u));
{% elif format == "IQ3_XXS" %}
    let signs = of_sevens{{ kind }}(raw.high);
    let scale = vec2(0.25 * d * f32(((raw.high >> 27u) & 30u) | 1u));
{% elif format == "IQ2_XXS" %}
    let signs = of_sevens{{ kind }}(c.y);
    let scale = vec2(0.125 * d * f32(((c.y >> 27u) & 30u) | 1u));
{% else %}
{% if format == "IQ2_S" %}
    let signs = c.y;
    let nibbles = sub >> 8u;
{% else %}
    let sevens = ((c.x >> 9u) & 0x7fu) | ((c.x >> 17u) & 0x7f00u) | ((c.y << 7u) & 0x7f0000u)
        | ((c.y >> 1u) & 0x7f000000u);
    let signs = even{{ kind }}(sevens);
    let nibbles = sub;
{% endif %}
    let scale = 0.125 * d * vec2(f32(((nibbles << 1u) & 30u) | 1u), f32(((nibbles >> 3u) & 30u) | 1u));
{% endif %}
    return Unit{{ kind }}(negated{{ kind }}(first, signs), negated{{ kind }}(second, signs >> 16u), scale);
{% endif %}
