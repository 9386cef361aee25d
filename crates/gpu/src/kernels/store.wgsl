{# The store of keys and values in the caches, for keys and values of different lengths, or for keys
   alone. A thread stores a unit of a row; the grid's y is the row. #}
var<storage, read> rows: array<vec4<u32>>;
var<storage, read> tables: array<u32>;
var<storage, read> k: array<Unit>;
var<storage, read_write> keys: array<KeyCell>;
{% if values %}
var<storage, read> v: array<Unit>;
var<storage, read_write> values: array<ValueCell>;
{% endif %}

{% include "cache.wgsl" %}
{% include "encode_blocks.wgsl" %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.y;
    let position = rows[row].y;
    let page = tables[rows[row].z * TABLE + position / PAGE];
    if (id.x < KV_HEADS * UNITS) {
        let at = place(page, id.x / UNITS, position % PAGE) + id.x % UNITS;
{% if key_side.bits %}
        let u = id.x % UNITS;
        let from_head = row * KV_HEADS * UNITS + id.x - u;
{% with source="k[from_head + $]", side=key_side, at="at", length=units, keep="", when="" %}
{% include "store_block.wgsl" %}
{% endwith %}
{% else %}
        keys[at] = pack_key(k[row * KV_HEADS * UNITS + id.x]);
{% endif %}
    }
{% if values %}
    if (id.x < KV_HEADS * VALUE_UNITS) {
        let at = value_place(page, id.x / VALUE_UNITS, position % PAGE) + id.x % VALUE_UNITS;
{% if value_side.bits %}
        let u = id.x % VALUE_UNITS;
        let from_head = row * KV_HEADS * VALUE_UNITS + id.x - u;
{% with source="v[from_head + $]", side=value_side, at="at", length=value_units, keep="", when="" %}
{% include "store_block.wgsl" %}
{% endwith %}
{% else %}
        values[at] = pack_value(v[row * KV_HEADS * VALUE_UNITS + id.x]);
{% endif %}
    }
{% endif %}
}
