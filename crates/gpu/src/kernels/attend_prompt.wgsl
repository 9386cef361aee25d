{# Attention of prompt rows (flash attention: Dao et al., arXiv 2205.14135). A workgroup computes a
   tile of 64 queries: consecutive rows of one slot with query heads of a KV head, all or 64 at most. Keys are copied
   to workgroup memory in slices of units of a page, values in slices of its positions. A thread has
   the scores of 4 queries with 4 positions, and for 4 queries every 16th unit of the result. #}
const HEADS = {{ heads }}u;
const GROUP = {{ group }}u;
const THREADS = {{ threads }}u;

var<storage, read> rows: array<vec4<u32>>;
var<storage, read> tables: array<u32>;
// first row, and number of rows
var<storage, read> tiles: array<vec2<u32>>;
{% if grouped %}
var<storage, read> places: array<vec4<u32>>;
{% endif %}
var<storage, read> q: array<Unit>;
var<storage, read> keys: array<KeyCell>;
var<storage, read> values: array<ValueCell>;
var<storage, read_write> a: array<Unit>;
{% if sinks %}
var<storage, read> sinks: array<f32>;
{% endif %}

{% include "cache.wgsl" %}
{% include "attention_products.wgsl" %}
{% include "kv_splits.wgsl" %}

// The keys and queries of a slice, or its values. An odd stride avoids bank conflicts, and so does
// the order of the keys: by p % 4, then p / 4, for the position p of a key.
const STRIDE = {{ slice + 1 - slice % 2 }}u;
const QUERIES = PAGE * STRIDE;
var<workgroup> tile: array<Unit, {{ tile }}>;
// scores, then weights: of positions 4n to 4n + 3 for query i at i · PAGE / 4 + n
var<workgroup> weights: array<vec4<f32>, {{ queries * page // 4 }}>;
var<workgroup> rescale: array<f32, {{ queries }}>;

{# A row as its queries see positions. #}
{% macro seen(i) %}{{ "seen_row(%s)"|format(i) if grouped else "rows[%s]"|format(i) }}{% endmacro %}
@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let thread = subgroup * width + lane;
    let kv_head = group.x / {{ groups_per_kv_head }}u;
    let first_head = group.x * GROUP;
    let first_row = tiles[group.y].x;
    let count = tiles[group.y].y * GROUP;
    let table = rows[first_row].z * TABLE;
    let last = last_visible({{ seen("first_row + tiles[group.y].y - 1u") }});
    let first = first_visible({{ seen("first_row") }});

    // the role of the thread in products: 4 queries from `line` on, 4 positions of `column`
    let column = thread % 16u;
    let line = thread / 16u * 4u;
    let works = line < count;
    // its role in loads: a unit of a query and of a key of each slice
    let loads = thread < {{ queries * slice }}u;
    let load_at = min(thread / {{ slice }}u, PAGE - 1u);
    let load_unit = thread % {{ slice }}u;
    let load_query = min(load_at, count - 1u);
    let from_head = (first_row + load_query / GROUP) * HEADS + first_head + load_query % GROUP;
    let from_query = from_head * UNITS + load_unit;
    let to_key = (load_at % 4u * 16u + load_at / 4u) * STRIDE + load_unit;
    // its role in the softmax: one of four threads of query `own`, which sees the positions
    // from_position .. until
    let own = thread / 4u;
    let own_part = thread % 4u * 4u;
    let own_row = {{ seen("first_row + min(own, count - 1u) / GROUP") }};
    let from_position = first_visible(own_row);
    let until = last_visible(own_row) + 1u;
{% if sinks or alibi is not none %}
    let own_head = first_head + min(own, count - 1u) % GROUP;
{% endif %}
{% if sinks %}
    var highest = sinks[own_head] * {{ log2_e }};
    var total = 1.0;
{% else %}
    var highest = LOWEST;
    var total = 0.0;
{% endif %}
{% if alibi is not none %}
    let own_slope = slope(own_head);
{% elif softcap %}
    let own_slope = 0.0;
{% endif %}

{% for j in range(4) %}
{% for w in range(columns) %}
    var sum{{ j }}_{{ w }} = Unit();
{% endfor %}
{% endfor %}
    for (var page = first / PAGE; page <= last / PAGE; page++) {
        let physical = tables[table + page];
        let from_value = value_place(physical, kv_head, 0u);
        let from_key = place(physical, kv_head, 0u) + load_at * UNITS + load_unit;
{% for j in range(4) %}
{% for i in range(4) %}
        var score{{ j }}_{{ i }} = 0.0;
{% endfor %}
{% endfor %}
        var key = key_at(from_key);
        var query = q[from_query];
        for (var slice = 0u; slice < UNITS; slice += {{ slice }}u) {
            workgroupBarrier();
            if (loads) {
                tile[to_key] = unpack_key(key);
                tile[QUERIES + thread] = query * {{ scale }};
            }
            workgroupBarrier();
            if (slice + {{ slice }}u < UNITS) {
                key = key_at(from_key + slice + {{ slice }}u);
                query = q[from_query + slice + {{ slice }}u];
            }
            if (works) {
{% for u in range(slice) %}
                {
{% for i in range(4) %}
                    let k{{ i }} = tile[({{ i * 16 }}u + column) * STRIDE + {{ u }}u];
{% endfor %}
{% for j in range(4) %}
                    let q{{ j }} = tile[QUERIES + (line + {{ j }}u) * {{ slice }}u + {{ u }}u];
{% for i in range(4) %}
                    score{{ j }}_{{ i }} = add_dot(q{{ j }}, k{{ i }}, score{{ j }}_{{ i }});
{% endfor %}
{% endfor %}
                }
{% endfor %}
            }
        }
{% for j in range(4) %}
        weights[(line + {{ j }}u) * (PAGE / 4u) + column] =
            vec4(score{{ j }}_0, score{{ j }}_1, score{{ j }}_2, score{{ j }}_3);
{% endfor %}
        workgroupBarrier();

        let own_at = own * (PAGE / 4u) + own_part;
        let from_own = page * PAGE + own_part * 4u;
        var top = highest;
{% for n in range(4) %}
        let at{{ n }} = vec4(from_own + {{ n * 4 }}u) + vec4(0u, 1u, 2u, 3u);
        let seen{{ n }} = (at{{ n }} >= vec4(from_position)) & (at{{ n }} < vec4(until));
{% if softcap or alibi is not none %}
        let score{{ n }} = scored4(
            weights[own_at + {{ n }}u],
            own_slope,
            abs(vec4(f32(own_row.y)) - vec4<f32>(at{{ n }})),
        );
        let four{{ n }} = select(vec4(LOWEST), score{{ n }}, seen{{ n }});
{% else %}
        let four{{ n }} = select(vec4(LOWEST), weights[own_at + {{ n }}u], seen{{ n }});
{% endif %}
        top = max(top, max(max(four{{ n }}.x, four{{ n }}.y), max(four{{ n }}.z, four{{ n }}.w)));
{% endfor %}
        top = max(top, subgroupShuffleXor(top, 1u));
        top = max(top, subgroupShuffleXor(top, 2u));
        var more = 0.0;
{% for n in range(4) %}
        // if the query sees no position of the page, top is LOWEST
        let weight{{ n }} = select(vec4(0.0), exp2(four{{ n }} - top), seen{{ n }});
        weights[own_at + {{ n }}u] = weight{{ n }};
        more += dot(weight{{ n }}, vec4(1.0));
{% endfor %}
        more += subgroupShuffleXor(more, 1u);
        more += subgroupShuffleXor(more, 2u);
        let factor = exp2(highest - top);
        total = total * factor + more;
        highest = top;
        if (own_part == 0u) {
            rescale[own] = factor;
        }
        workgroupBarrier();

{% for j in range(4) %}
        let factor{{ j }} = rescale[line + {{ j }}u];
{% for w in range(columns) %}
        sum{{ j }}_{{ w }} *= factor{{ j }};
{% endfor %}
{% endfor %}
{% set loads = (rows_of_values * value_units + threads - 1) // threads %}
{% macro load_values(slot) %}
{% for n in range(loads) %}
{% if value_stride == value_units %}
            value{{ n }} = value_at(from_value
                + min({{ slot }} * VALUE_UNITS + thread + {{ n * threads }}u, PAGE * VALUE_UNITS - 1u));
{% else %}
            value{{ n }} = value_at(from_value
                + min({{ slot }} + (thread + {{ n * threads }}u) / VALUE_UNITS, PAGE - 1u)
                    * {{ value_stride }}u
                + (thread + {{ n * threads }}u) % VALUE_UNITS);
{% endif %}
{% endfor %}
{% endmacro %}
{% for n in range(loads) %}
        var value{{ n }}: StoredValue;
{% endfor %}
{{ load_values("0u") }}
        for (var slot = 0u; slot < PAGE; slot += {{ rows_of_values }}u) {
            workgroupBarrier();
{% for n in range(loads) %}
            if (thread + {{ n * threads }}u < {{ rows_of_values }}u * VALUE_UNITS) {
                // slots that no query sees may hold NaN
                let at = page * PAGE + slot + (thread + {{ n * threads }}u) / VALUE_UNITS;
                let seen = at >= first && at <= last;
                tile[thread + {{ n * threads }}u] = select(Unit(), unpack_value(value{{ n }}), seen);
            }
{% endfor %}
            workgroupBarrier();
            if (slot + {{ rows_of_values }}u < PAGE) {
{{ load_values("(slot + " ~ rows_of_values ~ "u)") }}
            }
            if (works) {
{% for n in range(rows_of_values // 4) %}
                {
{% for j in range(4) %}
                    let weight{{ j }} =
                        weights[(line + {{ j }}u) * (PAGE / 4u) + slot / 4u + {{ n }}u];
{% endfor %}
{% for w in range(columns) %}
                    let unit{{ w }} = min(column + {{ w * 16 }}u, VALUE_UNITS - 1u);
{% for c in range(4) %}
                    let v{{ w }}_{{ c }} = tile[{{ n * 4 + c }}u * VALUE_UNITS + unit{{ w }}];
{% endfor %}
{% for j in range(4) %}
                    sum{{ j }}_{{ w }} += weight{{ j }}.x * v{{ w }}_0 + weight{{ j }}.y * v{{ w }}_1
                        + weight{{ j }}.z * v{{ w }}_2 + weight{{ j }}.w * v{{ w }}_3;
{% endfor %}
{% endfor %}
                }
{% endfor %}
            }
        }
    }

    workgroupBarrier();
    if (own_part == 0u) {
        rescale[own] = 1.0 / total;
    }
    workgroupBarrier();
{% for j in range(4) %}
    if (line + {{ j }}u < count) {
        let i = line + {{ j }}u;
        let out = ((first_row + i / GROUP) * HEADS + first_head + i % GROUP) * VALUE_UNITS;
{% for w in range(columns) %}
        if (column + {{ w * 16 }}u < VALUE_UNITS) {
            a[out + column + {{ w * 16 }}u] = sum{{ j }}_{{ w }} * rescale[i];
        }
{% endfor %}
    }
{% endfor %}
}
