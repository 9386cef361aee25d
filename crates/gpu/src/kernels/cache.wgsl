{# Units of heads and of the KV caches: keys [pages, kv_heads, PAGE, key_dim], values of value_dim. A
   unit is a vector of 4 elements, or of 2 if a dimension is not a multiple of 4. Values that are a
   prefix of the keys have the stride and the type of keys. Keys and values have a type each.
   In block types the words of a position's key are its codes, a unit's in a word or in half of one,
   then words of fifth bits, then scales of blocks of 32, two f16 to a word, or a scale and a minimum. #}
alias Unit = {{ "f32" if unit == 1 else "vec%s<f32>"|format(unit) }};
const KV_HEADS = {{ kv_heads }}u;
const UNITS = {{ units }}u;
const VALUE_UNITS = {{ value_units }}u;
const PAGE = {{ page }}u;
const TABLE = {{ table }}u;
{% if key_side.kv == "bf16" or value_side.kv == "bf16" %}

fn bf16_of(v: f32) -> u32 {
    let bits = bitcast<u32>(v);
    let nearest = (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
    return select(nearest, (bits >> 16u) | 0x40u, (bits & 0x7fffffffu) > 0x7f800000u);
}
{% endif %}
{% if key_side.uneven or value_side.uneven %}

// The levels of four codes in bytes.
fn levels_of(codes: u32) -> vec4<f32> {
    let i = (vec4(codes) >> vec4(0u, 8u, 16u, 24u)) & vec4(15u);
    let lower = select(vec4({{ levels[0] }}), vec4({{ levels[1] }}), i >= vec4(4u));
    let upper = select(vec4({{ levels[2] }}), vec4({{ levels[3] }}), i >= vec4(12u));
    let word = select(lower, upper, i >= vec4(8u));
    return vec4<f32>(bitcast<vec4<i32>>(word << (vec4(24u) - (i & vec4(3u)) * 8u)) >> vec4(24u));
}
{% endif %}
{% for side in [key_side, value_side] %}
{% set Stored = side.stored %}

{% if side.kv == "f32" or unit == 1 %}
alias {{ Stored }} = Unit;
alias {{ side.cell }} = Unit;

fn unpack_{{ side.of }}(v: {{ Stored }}) -> Unit {
    return v;
}

fn pack_{{ side.of }}(v: Unit) -> {{ Stored }} {
    return v;
}
{% elif side.bits %}
// codes of four elements in bytes, and the bits of their scale in f32{{ ", or scale and minimum in f16" if side.has_min }}
alias {{ Stored }} = vec2<u32>;
alias {{ side.cell }} = u32;

fn unpack_{{ side.of }}(v: {{ Stored }}) -> Unit {
{% if side.uneven %}
    return bitcast<f32>(v.y) * levels_of(v.x);
{% elif side.has_min %}
    let factors = unpack2x16float(v.y);
    return factors.x * vec4<f32>(unpack4xU8(v.x)) + factors.y;
{% elif side.bits == 8 %}
    return bitcast<f32>(v.y) * vec4<f32>(unpack4xI8(v.x));
{% else %}
    return bitcast<f32>(v.y) * (vec4<f32>(unpack4xU8(v.x)) - {{ side.offset }}.0);
{% endif %}
}
{% else %}
alias {{ Stored }} = {{ "vec2<u32>" if unit == 4 else "u32" }};
alias {{ side.cell }} = {{ Stored }};

fn unpack_{{ side.of }}(v: {{ Stored }}) -> Unit {
{% if side.kv == "bf16" and unit == 4 %}
    return bitcast<vec4<f32>>(vec4(v.x << 16u, v.x & 0xffff0000u, v.y << 16u, v.y & 0xffff0000u));
{% elif side.kv == "bf16" %}
    return bitcast<vec2<f32>>(vec2(v << 16u, v & 0xffff0000u));
{% elif unit == 4 %}
    return vec4(unpack2x16float(v.x), unpack2x16float(v.y));
{% else %}
    return unpack2x16float(v);
{% endif %}
}

fn pack_{{ side.of }}(v: Unit) -> {{ Stored }} {
{% if side.kv == "bf16" and unit == 4 %}
    return vec2(bf16_of(v.x) | (bf16_of(v.y) << 16u), bf16_of(v.z) | (bf16_of(v.w) << 16u));
{% elif side.kv == "bf16" %}
    return bf16_of(v.x) | (bf16_of(v.y) << 16u);
{% elif unit == 4 %}
    return vec2(pack2x16float(v.xy), pack2x16float(v.zw));
{% else %}
    return pack2x16float(v);
{% endif %}
}
{% endif %}
{% endfor %}

// The first unit of the key of a position in a page.
fn place(page: u32, kv_head: u32, slot: u32) -> u32 {
    return ((page * KV_HEADS + kv_head) * PAGE + slot) * UNITS;
}

// The first unit of its value.
fn value_place(page: u32, kv_head: u32, slot: u32) -> u32 {
    return ((page * KV_HEADS + kv_head) * PAGE + slot) * {{ value_stride }}u;
}
{% for side in [key_side, value_side] if reads and not (direct and side.kv == "f16") %}

// Unit i of the {{ side.of }}s.
fn {{ side.of }}_at(i: u32) -> {{ side.stored }} {
{% if side.bits %}
    let row = i / {{ side.stride }}u * {{ side.words }}u;
    let u = i % {{ side.stride }}u;
{% if side.bits == 8 %}
    let codes = {{ side.of }}s[row + u];
{% else %}
    let half = {{ side.of }}s[row + u / 2u] >> (u % 2u * 16u);
    let spread = (half & 0xffu) | ((half & 0xff00u) << 8u);
{% if side.bits == 5 %}
    let fifth = ({{ side.of }}s[row + {{ side.fifth_at }}u + u / 8u] >> (u % 8u * 4u)) & 15u;
    // the product has bit n of the four at bit 8n
    let codes = ((spread | (spread << 4u)) & 0x0f0f0f0fu) | (((fifth * 0x00204081u) & 0x01010101u) << 4u);
{% else %}
    let codes = (spread | (spread << 4u)) & 0x0f0f0f0fu;
{% endif %}
{% endif %}
{% if side.has_min %}
    return {{ side.stored }}(codes, {{ side.of }}s[row + {{ side.factors_at }}u + u / 8u]);
{% else %}
    // the scale of every other block is in the upper half of a word
    let scales = unpack2x16float({{ side.of }}s[row + {{ side.factors_at }}u + u / 16u]);
    return {{ side.stored }}(codes, bitcast<u32>(select(scales.x, scales.y, (u & 8u) != 0u)));
{% endif %}
{% else %}
    return {{ side.of }}s[i];
{% endif %}
}
{% endfor %}
