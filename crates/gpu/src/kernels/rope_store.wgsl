{# Norms of the query and key heads, their rotation by the row's position, and the store of keys and
   values. Queries and keys change in place. Norms, rotation, queries and store are optional. A
   workgroup computes {{ staged }} heads of a row. #}
const HEADS = {{ heads }}u;
const ALL = {{ heads + 2 * kv_heads }}u;
const THREADS = {{ threads }}u;

var<storage, read> rows: array<vec4<u32>>;
{% if heads %}
var<storage, read_write> q: array<Unit>;
{% endif %}
{% if kv_heads %}
var<storage, read_write> k: array<Unit>;
var<storage, read> v: array<Unit>;
var<storage, read> tables: array<u32>;
var<storage, read_write> keys: array<KeyCell>;
var<storage, read_write> values: array<ValueCell>;
{% endif %}

{% include "cache.wgsl" %}
{% include "encode_blocks.wgsl" %}
{% include "heads.wgsl" %}

var<workgroup> room: array<Unit, {{ staged * units }}>;

fn kind(base: u32, h: u32) -> u32 {
    return select(select(VALUE, KEY, base + h < HEADS + KV_HEADS), QUERY, base + h < HEADS);
}

fn load(row: u32, base: u32, h: u32, u: u32) -> Unit {
    let head = base + h;
{% if heads %}
    if (head < HEADS) {
        return q[(row * HEADS + head) * UNITS + u];
    }
{% endif %}
{% if kv_heads %}
    if (head < HEADS + KV_HEADS) {
        return k[(row * KV_HEADS + head - HEADS) * UNITS + u];
    }
    return v[(row * KV_HEADS + head - HEADS - KV_HEADS) * UNITS + u];
{% else %}
    return Unit();
{% endif %}
}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let thread = subgroup * width + lane;
    let row = group.y;
    let position = rows[row].y;
    let base = group.x * {{ staged }}u;
    let count = min(ALL - base, {{ staged }}u);
    stage(row, base, count, position, subgroup, subgroups, lane, width);
{% if kv_heads %}
    let page = tables[rows[row].z * TABLE + position / PAGE];
{% endif %}
    workgroupBarrier();
    for (var i = thread; i < count * UNITS; i += THREADS) {
        let h = i / UNITS;
        let u = i % UNITS;
        let head = base + h;
{% if heads %}
        if (head < HEADS) {
            q[(row * HEADS + head) * UNITS + u] = rotated_unit(h, u);
        }
{% endif %}
{% if kv_heads %}
        let kv_head = (head - HEADS) % KV_HEADS;
        let at = place(page, kv_head, position % PAGE) + u;
        if (kind(base, h) == KEY) {
            let key = rotated_unit(h, u);
            k[(row * KV_HEADS + kv_head) * UNITS + u] = key;
{% if key_side.bits %}
{% with source="rotated_unit(h, $)", side=key_side, at="at", length=units, keep="", when="" %}
{% include "store_block.wgsl" %}
{% endwith %}
{% else %}
            keys[at] = pack_key(key);
{% endif %}
        }
        if (kind(base, h) == VALUE) {
{% if value_side.bits %}
{% with source="room[h * UNITS + $]", side=value_side, at="at", length=units, keep="", when="" %}
{% include "store_block.wgsl" %}
{% endwith %}
{% else %}
            values[at] = pack_value(room[i]);
{% endif %}
        }
{% endif %}
    }
}
