{# Attention of prompt rows on matrix cores (flash attention: Dao et al., arXiv 2205.14135). A
   workgroup computes a tile of queries: consecutive rows of one slot with query heads of a KV head,
   all or as many as fit. A subgroup has {{ queries }} of the queries, in blocks of 16, and the sums of
   their values in registers throughout. Keys and values of {{ staged }} positions at a time pass through
   workgroup memory; scores and weights of a block with {{ step }} positions pass through memory of the
   subgroup, because elements of a fragment cannot be accessed:
       scores (query, position) = queries (query, k) · keys (k, position)
       sums (query, unit) += weights (query, position) · values (position, unit)
   Positions that a query does not see have weight 0 and change none of its bits, so its result does
   not depend on the tile that it is in. #}
{# Keys or values in f16 are bound as vectors of them. #}
{% set direct_keys = key_side.kv == "f16" %}
{% set direct_values = value_side.kv == "f16" %}
{% set loaded = "vec4<f16>" if direct_values else "StoredValue" %}
enable f16;
enable wgpu_cooperative_matrix;
// naga refuses matrix cores in loops that end at a value from memory
diagnostic(off, derivative_uniformity);

const HEADS = {{ heads }}u;
const GROUP = {{ group }}u;
// The greatest sum of weights of a lane before the reference of their exponents rises: far below the
// greatest f16, and rarely exceeded.
const LIMIT = 8192.0;

var<storage, read> rows: array<vec4<u32>>;
var<storage, read> tables: array<u32>;
// first row, and number of rows
var<storage, read> tiles: array<vec2<u32>>;
{% if grouped %}
var<storage, read> places: array<vec4<u32>>;
{% endif %}
var<storage, read> q: array<vec4<f32>>;
var<storage, read> keys: array<{{ "vec4<f16>" if direct_keys else "KeyCell" }}>;
var<storage, read> values: array<{{ "vec4<f16>" if direct_values else "ValueCell" }}>;
var<storage, read_write> a: array<vec4<f32>>;
{% if sinks %}
var<storage, read> sinks: array<f32>;
{% endif %}

{% include "cache.wgsl" %}
{% include "attention_products.wgsl" %}
{% include "kv_splits.wgsl" %}

{# Strides in vectors of four: with 16 bytes more than a row, eight rows that are read together lie in
   different banks. #}
{% set key_stride = key_cores * 4 + 2 %}
{% set value_stride_staged = value_cores * 4 + 2 %}
{% set score_stride = (step + (8 if step == 32 else 4)) // 4 %}
{% set weight_stride = (step + 8) // 4 %}
{% set across = step // 4 %}
{# rows of a block that a lane has: with 8 lanes a row four that are adjacent, else two #}
{% set each = across // 2 %}
{% set apart = 1 if across == 8 else 8 %}
{% set deep = step // 16 %}
{% set blocks = queries // 16 %}
{% set f16a = "coop_mat16x16<f16, A>" %}
{% set f16b = "coop_mat16x16<f16, B>" %}
{% set f32c = "coop_mat16x16<f32, C>" %}
var<workgroup> key_tile: array<vec4<f16>, {{ staged * key_stride }}>;
var<workgroup> value_tile: array<vec4<f16>, {{ staged * value_stride_staged }}>;
// each subgroup's: a block's scores, then its weights; also its queries and sums on their way
var<workgroup> scores: array<vec4<f32>, {{ subgroups * 16 * score_stride }}>;
var<workgroup> weights: array<vec4<f16>, {{ subgroups * 16 * weight_stride }}>;

{% if not grouped %}
// The row of a query of a tile, whose first row is `head`.
fn row_of(head: vec4<u32>, query: u32) -> vec4<u32> {
    return vec4(head.x, head.y + query / GROUP, head.z, head.w);
}
{% endif %}

{# The scores and the weights of the lane's row `r` of a block. #}
{% macro score(r) %}scores[score_base + {{ r * apart * score_stride }}u + lane_score]{% endmacro %}
{% macro weight(r) %}weights[weight_base + {{ r * apart * weight_stride }}u + lane_weight]{% endmacro %}
{# The first unit of the staged position range `tile` in a cache. #}
{% macro base_of(tile, place) %}{{ place }}(tables[table + {{ tile }} * {{ staged }}u / PAGE], kv_head, {{ tile }} * {{ staged }}u % PAGE){% endmacro %}
{# Loads of keys and values: a thread has every {{ threads }}th vector of those staged. #}
{% set key_units = staged * units %}
{% set key_loads = (key_units + threads - 1) // threads %}
{% set staged_units = staged * value_units %}
{% set value_loads = (staged_units + threads - 1) // threads %}
{% macro at(n, count) %}{{ "min(" if (n + 1) * threads > count }}thread + {{ n * threads }}u{{ ", %su)"|format(count - 1) if (n + 1) * threads > count }}{% endmacro %}
{% macro of_cache(keys, at) %}{{ ("keys[" if keys else "values[") if (direct_keys if keys else direct_values) else ("key_at(" if keys else "value_at(") }}{{ at }}{{ "]" if (direct_keys if keys else direct_values) else ")" }}{% endmacro %}
{% macro load(n) %}{{ of_cache(false, "from_value + " ~ (at(n, staged_units) if value_stride == value_units else "(" ~ at(n, staged_units) ~ ") / VALUE_UNITS * " ~ value_stride ~ "u + (" ~ at(n, staged_units) ~ ") % VALUE_UNITS")) }}{% endmacro %}
{% macro fetch(tile) %}
{
            let from_key = {{ base_of(tile, "place") }};
            let from_value = {{ base_of(tile, "value_place") }};
{% for n in range(key_loads) %}
            key{{ n }} = {{ of_cache(true, "from_key + " ~ at(n, key_units)) }};
{% endfor %}
{% for n in range(value_loads) %}
            value{{ n }} = {{ load(n) }};
{% endfor %}
        }
{% endmacro %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    // matrix cores are used with subgroups of 32 alone
    let thread = subgroup * 32u + lane;
    let kv_head = group.x / {{ groups_per_kv_head }}u;
    let first_head = group.x * GROUP;
    let first_row = tiles[group.y].x;
    let count = tiles[group.y].y * GROUP;
    let head = {{ "seen_row(first_row)" if grouped else "rows[first_row]" }};
    let tail = {{ "seen_row(first_row + tiles[group.y].y - 1u)" if grouped else "rows[first_row + tiles[group.y].y - 1u]" }};
    let table = head.z * TABLE;
    let first = first_visible(head);
    let last = last_visible(tail);
    // the positions that every query sees
    let all_first = first_visible(tail);
    let all_last = last_visible(head);

    // the lane's rows in a block, and its vector in them
    let line = subgroup * {{ queries }}u + {{ "lane / 8u * 4u" if across == 8 else "lane / 4u" }};
    let column = lane % {{ across }}u;
    let score_base = subgroup * {{ 16 * score_stride }}u;
    let weight_base = subgroup * {{ 16 * weight_stride }}u;
    let lane_score = (line - subgroup * {{ queries }}u) * {{ score_stride }}u + column;
    let lane_weight = (line - subgroup * {{ queries }}u) * {{ weight_stride }}u + column;
{% for i in range(blocks) %}
{% for r in range(each) %}
    let query{{ i }}_{{ r }} = min(line + {{ i * 16 + r * apart }}u, count - 1u);
    let at{{ i }}_{{ r }} = (first_row + query{{ i }}_{{ r }} / GROUP) * HEADS + first_head + query{{ i }}_{{ r }} % GROUP;
{% if alibi is not none %}
    let slope{{ i }}_{{ r }} = slope(first_head + query{{ i }}_{{ r }} % GROUP);
{% elif softcap %}
    let slope{{ i }}_{{ r }} = 0.0;
{% endif %}
{% if sinks %}
    var top{{ i }}_{{ r }} = sinks[first_head + query{{ i }}_{{ r }} % GROUP] * {{ log2_e }};
    var total{{ i }}_{{ r }} = select(0.0, 1.0, column == 0u);
{% else %}
    // above LOWEST, so that the weight of a position that is not seen is 0
    var top{{ i }}_{{ r }} = -1e29;
    var total{{ i }}_{{ r }} = 0.0;
{% endif %}
{% endfor %}
{% for n in range(value_cores) %}
    var sum{{ i }}_{{ n }} = {{ f32c }}();
{% endfor %}
{% endfor %}

{% for i in range(blocks) %}
{% for c in range((key_cores + deep - 1) // deep) %}
{% for r in range(each) %}
{% set unit_of = "%su + column"|format(c * across) %}
{% if (c + 1) * across > units %}
    {{ weight(r) }} = to_half(select(vec4(0.0), q[at{{ i }}_{{ r }} * UNITS + min({{ unit_of }}, UNITS - 1u)], {{ unit_of }} < UNITS));
{% else %}
    {{ weight(r) }} = to_half(q[at{{ i }}_{{ r }} * UNITS + {{ unit_of }}]);
{% endif %}
{% endfor %}
    subgroupBarrier();
{% for k in range([deep, key_cores - c * deep]|min) %}
    let q{{ i }}_{{ c * deep + k }} = coopLoadT<{{ f16a }}>(&weights[weight_base + {{ k * 4 }}u], {{ weight_stride }}u);
{% endfor %}
    subgroupBarrier();
{% endfor %}
{% endfor %}

{% if key_cores * 4 > units %}
    // the elements after a key's last
    for (var i = thread; i < {{ staged * (key_cores * 4 - units) }}u; i += {{ threads }}u) {
        key_tile[i / {{ key_cores * 4 - units }}u * {{ key_stride }}u + UNITS + i % {{ key_cores * 4 - units }}u] = vec4<f16>();
    }
{% endif %}
{% if value_cores * 4 > value_units %}
    for (var i = thread; i < {{ staged * (value_cores * 4 - value_units) }}u; i += {{ threads }}u) {
        value_tile[i / {{ value_cores * 4 - value_units }}u * {{ value_stride_staged }}u + VALUE_UNITS + i % {{ value_cores * 4 - value_units }}u] = vec4<f16>();
    }
{% endif %}
{% for n in range(key_loads) %}
    var key{{ n }}: {{ "vec4<f16>" if direct_keys else "StoredKey" }};
{% endfor %}
{% for n in range(value_loads) %}
    var value{{ n }}: {{ loaded }};
{% endfor %}
    let last_tile = last / {{ staged }}u;
{% if prefetch %}
    {{ fetch("(first / %su)"|format(staged)) }}
{% endif %}
    for (var tile = first / {{ staged }}u; tile <= last_tile; tile++) {
        let tile_at = tile * {{ staged }}u;
        workgroupBarrier();
{% if not prefetch %}
        {{ fetch("tile") }}
{% endif %}
        // positions that no query sees may hold NaN
        if (tile_at < first || tile_at + {{ staged - 1 }}u > last) {
{% for n in range(value_loads) %}
            {
                let position = tile_at + (thread + {{ n * threads }}u) / VALUE_UNITS;
                value{{ n }} = select({{ loaded }}(), value{{ n }}, position >= first && position <= last);
            }
{% endfor %}
        }
{% for n in range(key_loads) %}
{% if (n + 1) * threads > key_units %}
        if (thread + {{ n * threads }}u < {{ key_units }}u) {
{% endif %}
        key_tile[(thread + {{ n * threads }}u) / UNITS * {{ key_stride }}u + (thread + {{ n * threads }}u) % UNITS] = {{ ("key%s" if direct_keys else "vec4<f16>(unpack_key(key%s))")|format(n) }};
{% if (n + 1) * threads > key_units %}
        }
{% endif %}
{% endfor %}
{% for n in range(value_loads) %}
{% if (n + 1) * threads > staged_units %}
        if (thread + {{ n * threads }}u < {{ staged_units }}u) {
{% endif %}
        value_tile[(thread + {{ n * threads }}u) / VALUE_UNITS * {{ value_stride_staged }}u + (thread + {{ n * threads }}u) % VALUE_UNITS] = {{ ("value%s" if direct_values else "vec4<f16>(unpack_value(value%s))")|format(n) }};
{% if (n + 1) * threads > staged_units %}
        }
{% endif %}
{% endfor %}
        workgroupBarrier();
{% if prefetch %}
        {{ fetch("min(tile + 1u, last_tile)") }}
{% endif %}
        let masked = tile_at < all_first || tile_at + {{ staged - 1 }}u > all_last;
{% for c in range(staged // step) %}
{% for i in range(blocks) %}
{% for j in range(deep) %}
        var s{{ c }}_{{ i }}_{{ j }} = {{ f32c }}();
{% endfor %}
{% endfor %}
{% for k in range(key_cores) %}
{% for j in range(deep) %}
        let k{{ c }}_{{ k }}_{{ j }} = coopLoad<{{ f16b }}>(&key_tile[{{ (c * step + j * 16) * key_stride + k * 4 }}u], {{ key_stride }}u);
{% for i in range(blocks) %}
        s{{ c }}_{{ i }}_{{ j }} = coopMultiplyAdd(q{{ i }}_{{ k }}, k{{ c }}_{{ k }}_{{ j }}, s{{ c }}_{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
{% endfor %}
{% for i in range(blocks) %}
{% for j in range(deep) %}
        coopStoreT(s{{ c }}_{{ i }}_{{ j }}, &scores[score_base + {{ j * 4 }}u], {{ score_stride }}u);
{% endfor %}
        subgroupBarrier();
        {
{% for r in range(each) %}
            var x{{ r }} = {{ score(r) }};
{% endfor %}
{% set from = "(tile_at + %su + column * 4u)"|format(c * step) %}
{% if softcap or alibi is not none %}
            let positions = vec4<f32>(vec4({{ from }}) + vec4(0u, 1u, 2u, 3u));
{% for r in range(each) %}
            x{{ r }} = scored4(x{{ r }}{{ " * %s"|format(before_cap) if softcap }}, slope{{ i }}_{{ r }}, abs(vec4(f32(head.y + query{{ i }}_{{ r }} / GROUP)) - positions));
{% endfor %}
{% endif %}
            if (masked) {
                let at = vec4({{ from }}) + vec4(0u, 1u, 2u, 3u);
{% for r in range(each) %}
                let row{{ r }} = {{ "seen_row(first_row + query%s_%s / GROUP)"|format(i, r) if grouped else "row_of(head, query%s_%s)"|format(i, r) }};
                x{{ r }} = select(vec4(LOWEST), x{{ r }}, (at >= vec4(first_visible(row{{ r }}))) & (at <= vec4(last_visible(row{{ r }}))));
{% endfor %}
            }
{% for r in range(each) %}
            var p{{ r }} = exp2(x{{ r }} - top{{ i }}_{{ r }});
            var more{{ r }} = (p{{ r }}.x + p{{ r }}.y) + (p{{ r }}.z + p{{ r }}.w);
{% endfor %}
            // a loop, because naga refuses matrix cores in a branch that is not uniform in the
            // workgroup; what a row gets depends on its own weights alone
            for (var rises = subgroupAny({% for r in range(each) %}{{ " || " if r }}more{{ r }} > LIMIT{% endfor %}); rises; rises = false) {
{% for r in range(each) %}
                var most{{ r }} = more{{ r }};
                var highest{{ r }} = max(max(x{{ r }}.x, x{{ r }}.y), max(x{{ r }}.z, x{{ r }}.w));
{% for mask in [1, 2, 4] if mask < across %}
                most{{ r }} = max(most{{ r }}, subgroupShuffleXor(most{{ r }}, {{ mask }}u));
                highest{{ r }} = max(highest{{ r }}, subgroupShuffleXor(highest{{ r }}, {{ mask }}u));
{% endfor %}
                let raised{{ r }} = select(top{{ i }}_{{ r }}, max(top{{ i }}_{{ r }}, highest{{ r }}), most{{ r }} > LIMIT);
                let factor{{ r }} = select(1.0, exp2(top{{ i }}_{{ r }} - raised{{ r }}), most{{ r }} > LIMIT);
                top{{ i }}_{{ r }} = raised{{ r }};
                total{{ i }}_{{ r }} *= factor{{ r }};
                p{{ r }} = exp2(x{{ r }} - raised{{ r }});
                more{{ r }} = (p{{ r }}.x + p{{ r }}.y) + (p{{ r }}.z + p{{ r }}.w);
{% endfor %}
                subgroupBarrier();
{% for n in range(0, value_cores, deep) %}
{% for j in range([deep, value_cores - n]|min) %}
                coopStoreT(sum{{ i }}_{{ n + j }}, &scores[score_base + {{ j * 4 }}u], {{ score_stride }}u);
{% endfor %}
                subgroupBarrier();
{% for r in range(each) %}
                {{ score(r) }} *= factor{{ r }};
{% endfor %}
                subgroupBarrier();
{% for j in range([deep, value_cores - n]|min) %}
                sum{{ i }}_{{ n + j }} = coopLoadT<{{ f32c }}>(&scores[score_base + {{ j * 4 }}u], {{ score_stride }}u);
{% endfor %}
                subgroupBarrier();
{% endfor %}
            }
{% for r in range(each) %}
            total{{ i }}_{{ r }} += more{{ r }};
            {{ weight(r) }} = vec4<f16>(p{{ r }});
{% endfor %}
        }
        subgroupBarrier();
{% for k in range(deep) %}
        let w{{ c }}_{{ i }}_{{ k }} = coopLoadT<{{ f16a }}>(&weights[weight_base + {{ k * 4 }}u], {{ weight_stride }}u);
{% endfor %}
{% endfor %}
{% for k in range(deep) %}
{% for n in range(value_cores) %}
        let v{{ c }}_{{ k }}_{{ n }} = coopLoadT<{{ f16b }}>(&value_tile[{{ (c * step + k * 16) * value_stride_staged + n * 4 }}u], {{ value_stride_staged }}u);
{% for i in range(blocks) %}
        sum{{ i }}_{{ n }} = coopMultiplyAdd(w{{ c }}_{{ i }}_{{ k }}, v{{ c }}_{{ k }}_{{ n }}, sum{{ i }}_{{ n }});
{% endfor %}
{% endfor %}
{% endfor %}
{% endfor %}
    }

{% for i in range(blocks) %}
{% for r in range(each) %}
{% for mask in [1, 2, 4] if mask < across %}
    total{{ i }}_{{ r }} += subgroupShuffleXor(total{{ i }}_{{ r }}, {{ mask }}u);
{% endfor %}
    let inverse{{ i }}_{{ r }} = 1.0 / total{{ i }}_{{ r }};
{% endfor %}
{% for n in range(0, value_cores, deep) %}
    subgroupBarrier();
{% for j in range([deep, value_cores - n]|min) %}
    coopStoreT(sum{{ i }}_{{ n + j }}, &scores[score_base + {{ j * 4 }}u], {{ score_stride }}u);
{% endfor %}
    subgroupBarrier();
{% for r in range(each) %}
    if (line + {{ i * 16 + r * apart }}u < count{{ " && %su + column < VALUE_UNITS"|format(n * 4) if n * 4 + across > value_units }}) {
        a[at{{ i }}_{{ r }} * VALUE_UNITS + {{ n * 4 }}u + column] = {{ score(r) }} * inverse{{ i }}_{{ r }};
    }
{% endfor %}
{% endfor %}
{% endfor %}
}

// Elements of queries in f16, scaled; those beyond its range become its greatest value, NaN is kept.
fn to_half(v: vec4<f32>) -> vec4<f16> {
    let scaled = v * {{ query_scale }};
    let is_nan = (bitcast<vec4<u32>>(scaled) & vec4(0x7fffffffu)) > vec4(0x7f800000u);
    return vec4<f16>(select(clamp(scaled, vec4(-65504.0), vec4(65504.0)), scaled, is_nan));
}
