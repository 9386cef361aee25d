{# Units of heads and of the KV caches: keys [pages, kv_heads, PAGE, key_dim], values of value_dim. A
   unit is a vector of 4 elements, or of 2 if a dimension is not a multiple of 4. Values that are a
   prefix of the keys have the stride of keys. In Q8_0 the words of a position's key are its codes,
   four to a word, then the scales of blocks of 32, two f16 to a word. #}
alias Unit = {{ "f32" if unit == 1 else "vec%s<f32>"|format(unit) }};
const KV_HEADS = {{ kv_heads }}u;
const UNITS = {{ units }}u;
const VALUE_UNITS = {{ value_units }}u;
const PAGE = {{ page }}u;
const TABLE = {{ table }}u;

{% if kv == "f32" or unit == 1 %}
alias Stored = Unit;
alias Cell = Unit;

fn unpack(v: Stored) -> Unit {
    return v;
}

fn pack(v: Unit) -> Stored {
    return v;
}
{% elif kv == "q8_0" %}
// four codes, and the bits of their scale in f32
alias Stored = vec2<u32>;
alias Cell = u32;

fn unpack(v: Stored) -> Unit {
    return bitcast<f32>(v.y) * vec4<f32>(unpack4xI8(v.x));
}
{% elif unit == 4 %}
alias Stored = vec2<u32>;
alias Cell = vec2<u32>;

fn unpack(v: Stored) -> Unit {
    return vec4(unpack2x16float(v.x), unpack2x16float(v.y));
}

fn pack(v: Unit) -> Stored {
    return vec2(pack2x16float(v.xy), pack2x16float(v.zw));
}
{% else %}
alias Stored = u32;
alias Cell = u32;

fn unpack(v: Stored) -> Unit {
    return unpack2x16float(v);
}

fn pack(v: Unit) -> Stored {
    return pack2x16float(v);
}
{% endif %}

// The first unit of the key of a position in a page.
fn place(page: u32, kv_head: u32, slot: u32) -> u32 {
    return ((page * KV_HEADS + kv_head) * PAGE + slot) * UNITS;
}

// The first unit of its value.
fn value_place(page: u32, kv_head: u32, slot: u32) -> u32 {
    return ((page * KV_HEADS + kv_head) * PAGE + slot) * {{ value_stride }}u;
}
{% if kv == "q8_0" %}

// The word of a unit of a key or a value in its cache, and that of the unit's scale.
fn key_word(i: u32) -> u32 {
    return i / UNITS * {{ key_words }}u + i % UNITS;
}
fn key_scale_word(i: u32) -> u32 {
    return i / UNITS * {{ key_words }}u + UNITS + i % UNITS / 16u;
}
fn value_word(i: u32) -> u32 {
    return i / {{ value_stride }}u * {{ value_words }}u + i % {{ value_stride }}u;
}
fn value_scale_word(i: u32) -> u32 {
    return i / {{ value_stride }}u * {{ value_words }}u + {{ value_stride }}u + i % {{ value_stride }}u / 16u;
}
{% endif %}
{% if reads %}

{% if kv == "q8_0" %}
// Unit i of the keys; its scale is in the upper half of a word for every other block.
fn key_at(i: u32) -> Stored {
    let scales = unpack2x16float(keys[key_scale_word(i)]);
    let scale = select(scales.x, scales.y, ((i % UNITS) & 8u) != 0u);
    return Stored(keys[key_word(i)], bitcast<u32>(scale));
}

// Unit i of the values.
fn value_at(i: u32) -> Stored {
    let scales = unpack2x16float(values[value_scale_word(i)]);
    let scale = select(scales.x, scales.y, ((i % {{ value_stride }}u) & 8u) != 0u);
    return Stored(values[value_word(i)], bitcast<u32>(scale));
}
{% else %}
// Unit i of the keys.
fn key_at(i: u32) -> Stored {
    return keys[i];
}

// Unit i of the values.
fn value_at(i: u32) -> Stored {
    return values[i];
}
{% endif %}
{% endif %}
