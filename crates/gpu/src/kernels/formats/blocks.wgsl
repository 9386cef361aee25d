{# Weights in blocks: a unit is 32 weights of one row,
       weight = scale · (code − ZERO) + min,
   with a scale and a min for each half. Names end in `kind`, if a kernel has several formats. Codes
   are four to a word, in the order of elements. The layout of the planes: weights/layout.rs. Joined
   planes are one buffer, which begins with the words at which they begin. #}
{% if joined %}
var<storage, read> planes{{ w }}: array<u32>;

fn low{{ w }}_at(i: u32) -> {{ low_type }} {
    let at = planes{{ w }}[0] + i * {{ {"u32": 1, "vec2<u32>": 2, "vec4<u32>": 4}[low_type] }}u;
{% if low_type == "u32" %}
    return planes{{ w }}[at];
{% elif low_type == "vec2<u32>" %}
    return vec2(planes{{ w }}[at], planes{{ w }}[at + 1u]);
{% else %}
    return vec4(planes{{ w }}[at], planes{{ w }}[at + 1u], planes{{ w }}[at + 2u], planes{{ w }}[at + 3u]);
{% endif %}
}
fn d{{ w }}_at(i: u32) -> u32 {
    return planes{{ w }}[planes{{ w }}[1] + i];
}
{% if sub_bytes %}
fn sub{{ w }}_at(i: u32) -> u32 {
    return planes{{ w }}[planes{{ w }}[2] + i];
}
{% endif %}
{% if high_bytes == 8 %}
fn high{{ w }}_at(i: u32) -> vec2<u32> {
    let at = planes{{ w }}[3] + 2u * i;
    return vec2(planes{{ w }}[at], planes{{ w }}[at + 1u]);
}
{% elif high_bytes %}
fn high{{ w }}_at(i: u32) -> u32 {
    return planes{{ w }}[planes{{ w }}[3] + i];
}
{% endif %}
{% if entry == 8 %}
fn grid{{ w }}_at(i: u32) -> vec2<u32> {
    let at = planes{{ w }}[4] + 2u * i;
    return vec2(planes{{ w }}[at], planes{{ w }}[at + 1u]);
}
{% elif entry %}
fn grid{{ w }}_at(i: u32) -> u32 {
    return planes{{ w }}[planes{{ w }}[4] + i];
}
{% endif %}
{% else %}
var<storage, read> low{{ w }}: array<{{ low_type }}>;
var<storage, read> d{{ w }}: array<u32>;
{% if sub_bytes %}
var<storage, read> sub{{ w }}: array<u32>;
{% endif %}
{% if high_bytes %}
var<storage, read> high{{ w }}: array<{{ "vec2<u32>" if high_bytes == 8 else "u32" }}>;
{% endif %}
{% if entry %}
var<storage, read> grid{{ w }}: array<{{ "vec2<u32>" if entry == 8 else "u32" }}>;
{% endif %}
{% endif %}
{% set at = w ~ ("_at(" if joined else "[") %}
{% set close = ")" if joined else "]" %}

{% if defines %}
const ZERO{{ kind }} = {{ zero }};

struct Unit{{ kind }} {
    first: vec4<u32>,
    second: vec4<u32>,
    scale: vec2<f32>,
{% if has_min %}
    min: vec2<f32>,
{% endif %}
}

{% if levels %}
// The levels of 16 codes, four to a word.
fn level{{ kind }}(codes: vec4<u32>) -> vec4<u32> {
    let four = vec4<bool>(codes & vec4(4u));
    let eight = vec4<bool>(codes & vec4(8u));
    let low = select(vec4({{ levels[0] }}u), vec4({{ levels[1] }}u), four);
    let high = select(vec4({{ levels[2] }}u), vec4({{ levels[3] }}u), four);
    return (select(low, high, eight) >> ((codes & vec4(3u)) * 8u)) & vec4(255u);
}
fn levels{{ kind }}(codes: vec4<u32>) -> vec4<u32> {
    let mask = vec4(15u);
    return level{{ kind }}(codes & mask) | (level{{ kind }}((codes >> vec4(8u)) & mask) << vec4(8u))
        | (level{{ kind }}((codes >> vec4(16u)) & mask) << vec4(16u))
        | (level{{ kind }}((codes >> vec4(24u)) & mask) << vec4(24u));
}
{% endif %}

{% if entry %}
// In every byte of seven bits the eighth that makes the number of bits even.
fn even{{ kind }}(sevens: u32) -> u32 {
    var parity = sevens ^ (sevens >> 4u);
    parity ^= parity >> 2u;
    parity ^= parity >> 1u;
    return sevens | ((parity & 0x01010101u) << 7u);
}

// The signs of four fields of seven bits.
fn of_sevens{{ kind }}(word: u32) -> u32 {
    return even{{ kind }}((word & 0x7fu) | ((word << 1u) & 0x7f00u) | ((word << 2u) & 0x7f0000u)
        | ((word << 3u) & 0x7f000000u));
}

// The bytes of `values`, negated where one of the low 16 bits of `signs` is set. None is 0, so that
// the complement plus 1 does not carry.
fn negated{{ kind }}(values: vec4<u32>, signs: u32) -> vec4<u32> {
    // bit b of four at bit 8b
    let four = (vec4(signs) >> vec4(0u, 4u, 8u, 12u)) & vec4(15u);
    let one = (four * 0x00204081u) & vec4(0x01010101u);
    return (values ^ (one * 255u)) + one;
}
{% endif %}

// A unit as it is loaded from memory, which is decoded later.
struct Raw{{ kind }} {
    i: u32,
    low: {{ low_type }},
{% if low_bits == 8 %}
    low_second: vec4<u32>,
{% endif %}
{% if high_bytes %}
    high: {{ "vec2<u32>" if high_bytes == 8 else "u32" }},
{% endif %}
    d: u32,
{% if sub_bytes %}
    sub: u32,
{% endif %}
}

fn decode{{ kind }}(raw: Raw{{ kind }}) -> Unit{{ kind }} {
{% if entry %}
    let bytes = vec4(0u, 8u, 16u, 24u);
{% include "formats/codebooks.wgsl" %}
{% else %}
    let c = raw.low;
{% if low_bits == 8 %}
    let first = c;
    let second = raw.low_second;
{% elif levels %}
    let first = levels{{ kind }}(c & vec4(0x0f0f0f0fu));
    let second = levels{{ kind }}((c >> vec4(4u)) & vec4(0x0f0f0f0fu));
{% elif low_bits == 4 %}
    var first = c & vec4(0x0f0f0f0fu);
    var second = (c >> vec4(4u)) & vec4(0x0f0f0f0fu);
{% else %}
    let shifts = vec4(0u, 2u, 4u, 6u);
    var first = (vec4(c.x) >> shifts) & vec4(0x03030303u);
    var second = (vec4(c.y) >> shifts) & vec4(0x03030303u);
{% endif %}
{% if high_bits == 1 %}
    let h = vec4(raw.high);
    first |= ((h >> vec4(0u, 1u, 2u, 3u)) & vec4(0x01010101u)) << vec4({{ low_bits }}u);
    second |= ((h >> vec4(4u, 5u, 6u, 7u)) & vec4(0x01010101u)) << vec4({{ low_bits }}u);
{% elif high_bits == 2 %}
    let high_shifts = vec4(0u, 2u, 4u, 6u);
    first |= ((vec4(raw.high.x) >> high_shifts) & vec4(0x03030303u)) << vec4({{ low_bits }}u);
    second |= ((vec4(raw.high.y) >> high_shifts) & vec4(0x03030303u)) << vec4({{ low_bits }}u);
{% endif %}
{% if scales == "block" %}
    let scale = vec2(unpack2x16float(raw.d >> ((raw.i & 1u) * 16u)).x);
    return Unit{{ kind }}(first, second, scale);
{% elif scales == "block_min" %}
    let dm = unpack2x16float(raw.d);
    return Unit{{ kind }}(first, second, vec2(dm.x), vec2(dm.y));
{% elif scales == "power" %}
    // 2^(e - 128) as the product of two powers, because a float of one is subnormal at times
    let e = (raw.d >> ((raw.i & 3u) * 8u)) & 255u;
    let lower = bitcast<f32>(((e >> 1u) + 63u) << 23u);
    let upper = bitcast<f32>((((e + 1u) >> 1u) + 63u) << 23u);
    return Unit{{ kind }}(first, second, vec2(lower * upper));
{% elif scales == "super_signed" %}
    let d = unpack2x16float(raw.d >> (((raw.i >> 3u) & 1u) * 16u)).x;
    let part = unpack4xI8(raw.sub >> ((raw.i & 3u) * 8u)).x;
    return Unit{{ kind }}(first, second, vec2(d * f32(part)));
{% elif scales == "super_alone" %}
    let d = unpack2x16float(raw.d >> (((raw.i >> {{ d_shift - 1 }}u) & 1u) * 16u)).x;
    return Unit{{ kind }}(first, second, vec2(d));
{% elif scales == "e4m3" %}
    // the bits of an E4M3 float are those of an f16 whose exponent has a bias that is greater by 8
    let pair = raw.d >> ((raw.i & 1u) * 16u);
    let scale = 128.0 * unpack2x16float(((pair & 127u) << 7u) | ((pair & 0x7f00u) << 15u));
    return Unit{{ kind }}(first, second, scale);
{% else %}
    let dm = unpack2x16float(raw.d);
    let part = raw.sub >> ((raw.i & 1u) * 16u);
{% if format in ["Q4_K", "Q5_K"] %}
    let scale = dm.x * f32(part & 255u);
    let min = -dm.y * f32((part >> 8u) & 255u);
    return Unit{{ kind }}(first, second, vec2(scale), vec2(min));
{% elif format == "Q2_K" %}
    let scale = dm.x * vec2(f32(part & 15u), f32((part >> 8u) & 15u));
    let min = -dm.y * vec2(f32((part >> 4u) & 15u), f32((part >> 12u) & 15u));
    return Unit{{ kind }}(first, second, scale, min);
{% else %}
    let parts = vec2<f32>(unpack4xI8(part).xy);
    return Unit{{ kind }}(first, second, dm.x * parts);
{% endif %}
{% endif %}
{% endif %}
}
{% endif %}

fn fetch{{ w }}(row: u32, unit: u32) -> Raw{{ kind }} {
    let i = row * UNITS + unit;
    return Raw{{ kind }}(
        i,
{% if low_bits == 8 %}
        low{{ at }}row * 2u * UNITS + unit{{ close }},
        low{{ at }}(row * 2u + 1u) * UNITS + unit{{ close }},
{% else %}
        low{{ at }}i{{ close }},
{% endif %}
{% if high_bytes %}
        high{{ at }}i{{ " >> 2u" if high_bytes == 1 }}{{ close }},
{% endif %}
        d{{ at }}i >> {{ d_shift }}u{{ close }},
{% if sub_bytes %}
        sub{{ at }}i >> {{ 2 if sub_bytes == 1 else 1 }}u{{ close }},
{% endif %}
    );
}
