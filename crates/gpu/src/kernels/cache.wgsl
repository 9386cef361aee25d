{# Units of heads and of the KV caches: keys [pages, kv_heads, PAGE, key_dim], values of value_dim. A
   unit is a vector of 4 elements, or of 2 if a dimension is not a multiple of 4. Values that are a
   prefix of the keys have the stride of keys. #}
alias Unit = {{ "f32" if unit == 1 else "vec%s<f32>"|format(unit) }};
const KV_HEADS = {{ kv_heads }}u;
const UNITS = {{ units }}u;
const VALUE_UNITS = {{ value_units }}u;
const PAGE = {{ page }}u;
const TABLE = {{ table }}u;

{% if kv == "f32" or unit == 1 %}
alias Stored = Unit;

fn unpack(v: Stored) -> Unit {
    return v;
}

fn pack(v: Unit) -> Stored {
    return v;
}
{% elif unit == 4 %}
alias Stored = vec2<u32>;

fn unpack(v: Stored) -> Unit {
    return vec4(unpack2x16float(v.x), unpack2x16float(v.y));
}

fn pack(v: Unit) -> Stored {
    return vec2(pack2x16float(v.xy), pack2x16float(v.zw));
}
{% else %}
alias Stored = u32;

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
