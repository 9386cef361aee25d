{# Attention of decoding rows (flash-decoding: Dao, Haziza, Massa, Sizov 2023). A workgroup computes
   queries of a row that read one KV head over one KV split, a range of whole pages, with an online
   softmax: a running maximum and sum (Milakov and Gimelshein, arXiv 1805.02867). If a row has
   several splits, merge.wgsl merges them.
   Fused, it does the work of rope_store.wgsl first: every workgroup rotates its queries. Workgroups
   whose split ends with the row's own position also rotate the key, and read that key and value from
   workgroup memory: no dispatch reads what it writes to a cache. One workgroup of each KV head stores
   them. With `slices` queries, keys and values are partial sums of live_product.wgsl, which it adds. `early`, as a phase of a persistent kernel, it loads page numbers and the first page's keys,
   which are those of earlier passes, before it waits for the phase before. #}
const HEADS = {{ heads }}u;
// query heads of a workgroup
const GROUP = {{ group }}u;
const THREADS = {{ threads }}u;

var<storage, read> rows: array<vec4<u32>>;
var<storage, read> tables: array<u32>;
{% if not slices %}
var<storage, read> q: array<Unit>;
{% endif %}
var<storage, {{ "read_write" if fused else "read" }}> keys: array<KeyCell>;
var<storage, {{ "read_write" if fused else "read" }}> values: array<ValueCell>;
var<storage, read_write> a: array<Unit>;
var<storage, read_write> splits: array<vec4<f32>>;
{% if sinks %}
var<storage, read> sinks: array<f32>;
{% endif %}
{% if slices %}
// [splits, units] of one row
var<storage, read> partial: array<Unit>;
{% for side in slices.sides if side.bias %}
var<storage, read> {{ side.bias }}: array<Unit>;
{% endfor %}
{% elif fused %}
var<storage, read> k: array<Unit>;
var<storage, read> v: array<Unit>;
{% endif %}

{% include "cache.wgsl" %}
{% if fused %}
{% include "encode_blocks.wgsl" %}
{% endif %}
{% include "attention_products.wgsl" %}
{% include "kv_splits.wgsl" %}

var<workgroup> query: array<Unit, {{ group * units }}>;
var<workgroup> scores: array<f32, {{ group * page }}>;
// those of positions 4n to 4n + 3 for query g at g · PAGE / 4 + n
var<workgroup> weights: array<vec4<f32>, {{ group * page // 4 }}>;
var<workgroup> highest: array<f32, {{ group }}>;
var<workgroup> total: array<f32, {{ group }}>;
var<workgroup> rescale: array<f32, {{ group }}>;
// heads before norm and rotation; after the pages the partial sums of strands
var<workgroup> room: array<Unit, {{ room }}>;
{% if fused %}
var<workgroup> own_key: array<StoredKey, {{ units }}>;
var<workgroup> own_value: array<StoredValue, {{ value_units }}>;

{% include "heads.wgsl" %}

fn kind(base: u32, h: u32) -> u32 {
    return select(KEY, QUERY, h < GROUP);
}

{% if slices %}
fn sum_of_slices(at: u32) -> Unit {
    var sum = Unit();
{% for s in range(slices.splits) %}
    sum += partial[{{ s * slices.len // unit }}u + at];
{% endfor %}
    return sum;
}

{% for side in slices.sides %}
fn {{ side.name }}_unit(row: u32, at: u32) -> Unit {
    return sum_of_slices({{ side.first // unit }}u + at){{ " + %s[at]"|format(side.bias) if side.bias }};
}

{% endfor %}
{% else %}
fn q_unit(row: u32, at: u32) -> Unit {
    return q[row * HEADS * UNITS + at];
}

fn k_unit(row: u32, at: u32) -> Unit {
    return k[row * KV_HEADS * UNITS + at];
}

fn v_unit(row: u32, at: u32) -> Unit {
    return v[row * KV_HEADS * UNITS + at];
}
{% endif %}

fn load(row: u32, base: u32, h: u32, u: u32) -> Unit {
    if (h < GROUP) {
        return q_unit(row, (base * GROUP + h) * UNITS + u);
    }
    return k_unit(row, base / {{ groups_per_kv_head }}u * UNITS + u);
}
{% endif %}

{# `lanes` threads compute the dot product of a key, and a thread reads units of `keys` keys. #}
{% macro load_keys(page) %}
{% for t in range(keys) %}
{% for j in range(units // lanes) %}
        key{{ t }}_{{ j }} =
            key_at(place({{ page }}, kv_head, slot{{ t }}) + key_lane + {{ j * lanes }}u);
{% endfor %}
{% endfor %}
{% endmacro %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let thread = subgroup * width + lane;
    let kv_head = group.x / {{ groups_per_kv_head }}u;
    let row = group.z;
    let position = rows[row].y;
    let table = rows[row].z * TABLE;
    let first = first_visible(rows[row]);
{% if symmetric %}
    let seen_to = last_visible(rows[row]);
{% else %}
    let seen_to = position;
{% endif %}
    // the KV split: pages begin .. end
    let all = seen_to / PAGE + 1u;
    let each = split_pages(all - first / PAGE);
    let begin = first / PAGE + group.y * each;
    if (begin >= all) {
        return;
    }
    let end = min(begin + each, all);
    let is_whole = each >= all - first / PAGE;
    // the offsets of the results in `splits` and in `a`
    let first_head = group.x * GROUP;
    let split_at = ((group.y * groups.z + row) * HEADS + first_head) * (VALUE_UNITS + 1u);
    let from_query = (row * HEADS + first_head) * UNITS;
    let out = (row * HEADS + first_head) * VALUE_UNITS;

    let key_lane = thread % {{ lanes }}u;
{% for t in range(keys) %}
    let slot{{ t }} = min(thread / {{ lanes }}u + {{ t * threads // lanes }}u, PAGE - 1u);
{% for j in range(units // lanes) %}
    var key{{ t }}_{{ j }}: StoredKey;
{% endfor %}
{% endfor %}
    // a thread sums a unit of the values of a strand of {{ depth }} positions
    let strand = thread / VALUE_UNITS;
    let unit = thread % VALUE_UNITS;
    let from_slot = min(strand, {{ strands - 1 }}u) * {{ depth }}u;
{% for g in range(group) %}
    var sum{{ g }} = Unit();
{% endfor %}
    // prefetch of the first page's keys and of two page numbers
    let last = end - 1u;
    var physical = tables[table + begin];
    var following = tables[table + min(begin + 1u, last)];
{{ load_keys("physical") }}
{% if fused %}
{% if early %}
    wait_for_inputs(thread);
{% endif %}
    // the split with the row's own position has the row's key as one more head
    let own = end == all;
    let stores = group.x % {{ groups_per_kv_head }}u == 0u;
    let own_at = place(tables[table + all - 1u], kv_head, position % PAGE);
    stage(row, group.x, GROUP + u32(own), position, subgroup, subgroups, lane, width);
    if (own) {
{% if slices %}
        // threads that have loaded no head
        for (var u = THREADS - 1u - thread; u < UNITS; u += THREADS) {
{% else %}
        for (var u = thread; u < UNITS; u += THREADS) {
{% endif %}
{% if value_side.bits %}
{% with source="v_unit(row, kv_head * UNITS + $)", side=value_side, at="own_at + u",
    length=units, keep="own_value", when="stores" %}
{% include "store_block.wgsl" %}
{% endwith %}
{% else %}
            let value = pack_value(v_unit(row, kv_head * UNITS + u));
            own_value[u] = value;
            if (stores) {
                values[own_at + u] = value;
            }
{% endif %}
        }
    }
    workgroupBarrier();
    for (var i = thread; i < GROUP * UNITS; i += THREADS) {
        query[i] = rotated_unit(i / UNITS, i % UNITS) * {{ scale }};
    }
    if (own) {
        for (var u = thread; u < UNITS; u += THREADS) {
{% if key_side.bits %}
{% with source="rotated_unit(GROUP, $)", side=key_side, at="own_at + u", length=units,
    keep="own_key", when="stores" %}
{% include "store_block.wgsl" %}
{% endwith %}
{% else %}
            let key = pack_key(rotated_unit(GROUP, u));
            own_key[u] = key;
            if (stores) {
                keys[own_at + u] = key;
            }
{% endif %}
        }
    }
{% else %}
    for (var i = thread; i < GROUP * UNITS; i += THREADS) {
        query[i] = q[from_query + i] * {{ scale }};
    }
{% endif %}
    for (var g = thread; g < GROUP; g += THREADS) {
{% if sinks %}
        // the merge of several splits adds the sink
        highest[g] = select(LOWEST, sinks[first_head + g] * {{ log2_e }}, is_whole);
        total[g] = select(0.0, 1.0, is_whole);
{% else %}
        highest[g] = LOWEST;
        total[g] = 0.0;
{% endif %}
    }
    workgroupBarrier();

    for (var page = begin; page < end; page++) {
        let base = page * PAGE;
        let edge = base < first || page + 1u == all;
{% if fused %}
        if (page + 1u == all) {
{% for t in range(keys) %}
            if (base + slot{{ t }} == position) {
{% for j in range(units // lanes) %}
                key{{ t }}_{{ j }} = own_key[key_lane + {{ j * lanes }}u];
{% endfor %}
            }
{% endfor %}
        }
{% endif %}
{% for i in range(group * keys) %}
        var product0_{{ i }} = 0.0;
{% endfor %}
{% for j in range(units // lanes) %}
        {
{% for t in range(keys) %}
            let key{{ t }} = unpack_key(key{{ t }}_{{ j }});
{% endfor %}
{% for g in range(group) %}
            let query{{ g }} = query[{{ g * units + j * lanes }}u + key_lane];
{% for t in range(keys) %}
            product0_{{ g * keys + t }} =
                add_dot(query{{ g }}, key{{ t }}, product0_{{ g * keys + t }});
{% endfor %}
{% endfor %}
        }
{% endfor %}
        // prefetch of the page's values and the next page's keys before the softmax
{% for i in range(depth) %}
        var value{{ i }} = value_at(value_place(physical, kv_head, from_slot + {{ i }}u) + unit);
{% endfor %}
        if (page < last) {
            physical = following;
{{ load_keys("physical") }}
            following = tables[table + min(page + 2u, last)];
        }
        // butterfly sum over lanes: as long as their number is even, each of two lanes keeps one of
        // two products
{% for join in joins %}
{% set n = loop.index0 %}
        let upper{{ n }} = (key_lane & {{ join.mask }}u) != 0u;
{% for i in range(join.left) %}
{% if join.pairs %}
{% set even = "product" ~ n ~ "_" ~ 2 * i %}
{% set odd = "product" ~ n ~ "_" ~ (2 * i + 1) %}
        let product{{ n + 1 }}_{{ i }} = select({{ even }}, {{ odd }}, upper{{ n }})
            + subgroupShuffleXor(select({{ odd }}, {{ even }}, upper{{ n }}), {{ join.mask }}u);
{% else %}
        let product{{ n + 1 }}_{{ i }} = product{{ n }}_{{ i }}
            + subgroupShuffleXor(product{{ n }}_{{ i }}, {{ join.mask }}u);
{% endif %}
{% endfor %}
{% endfor %}
        if (key_lane < {{ holders }}u) {
{% for i in range(left) %}
            {
                let product = {{ i * holders }}u + key_lane;
                let key = product % {{ keys }}u;
                let slot = min(thread / {{ lanes }}u + key * {{ threads // lanes }}u, PAGE - 1u);
                let seen = base + slot >= first && base + slot <= seen_to;
{% if softcap or alibi is not none %}
                let score = scored(
                    product{{ joins | length }}_{{ i }},
                    {{ "slope(first_head + product / %su)"|format(keys) if alibi is not none else "0.0" }},
                    abs(f32(position) - f32(base + slot)),
                );
{% else %}
                let score = product{{ joins | length }}_{{ i }};
{% endif %}
                scores[product / {{ keys }}u * PAGE + slot] = select(LOWEST, score, seen);
            }
{% endfor %}
        }
        workgroupBarrier();
        // a subgroup computes the softmax of a query
        for (var g = subgroup; g < GROUP; g += subgroups) {
            var top = LOWEST;
            for (var i = lane; i < PAGE; i += width) {
                top = max(top, scores[g * PAGE + i]);
            }
            let before = highest[g];
            top = max(subgroupMax(top), before);
            let factor = exp2(before - top);
            var sum = 0.0;
            for (var n = lane; n < PAGE / 4u; n += width) {
                let i = g * (PAGE / 4u) + n;
                let at = i * 4u;
                let four = vec4(scores[at], scores[at + 1u], scores[at + 2u], scores[at + 3u]);
                let weight = exp2(four - top);
                weights[i] = weight;
                sum += dot(weight, vec4(1.0));
            }
            sum = subgroupAdd(sum);
            if (lane == 0u) {
                rescale[g] = factor;
                highest[g] = top;
                total[g] = fma(total[g], factor, sum);
            }
        }
        workgroupBarrier();
        if (edge) {
            // slots that the query does not see may hold NaN
{% for i in range(depth) %}
            let at{{ i }} = base + from_slot + {{ i }}u;
            if (at{{ i }} < first || at{{ i }} > seen_to) {
                value{{ i }} = StoredValue();
            }
{% if fused %}
            if (at{{ i }} == position) {
                value{{ i }} = own_value[unit];
            }
{% endif %}
{% endfor %}
        }
{% for g in range(group) %}
        sum{{ g }} *= rescale[{{ g }}];
{% endfor %}
{% for n in range(depth // 4) %}
        {
{% for c in range(4) %}
            let v{{ c }} = unpack_value(value{{ n * 4 + c }});
{% endfor %}
{% for g in range(group) %}
            let weight{{ g }} = weights[{{ g * page // 4 + n }}u + from_slot / 4u];
            var four{{ g }} = weight{{ g }}.x * v0;
            four{{ g }} = fma(Unit(weight{{ g }}.y), v1, four{{ g }});
            four{{ g }} = fma(Unit(weight{{ g }}.z), v2, four{{ g }});
            four{{ g }} = fma(Unit(weight{{ g }}.w), v3, four{{ g }});
            sum{{ g }} += four{{ g }};
{% endfor %}
        }
{% endfor %}
    }

    // the sum over strands, for {{ at_once }} queries at a time
{% for start in range(0, group, at_once) %}
{% set count = [at_once, group - start] | min %}
    if (strand < {{ strands }}u) {
{% for g in range(start, start + count) %}
        room[{{ (g - start) * strands * value_units }}u + thread] = sum{{ g }};
{% endfor %}
    }
    workgroupBarrier();
    for (var i = thread; i < {{ count }}u * VALUE_UNITS; i += THREADS) {
        let g = {{ start }}u + i / VALUE_UNITS;
        let at = i / VALUE_UNITS * {{ strands * value_units }}u + i % VALUE_UNITS;
        var sum = room[at];
{% for s in range(1, strands) %}
        sum += room[at + {{ s * value_units }}u];
{% endfor %}
        if (is_whole) {
            a[out + g * VALUE_UNITS + i % VALUE_UNITS] = sum / total[g];
        } else {
            splits[split_at + g * (VALUE_UNITS + 1u) + i % VALUE_UNITS] = vec4(sum{{ {1: ", 0.0, 0.0, 0.0", 2: ", 0.0, 0.0", 4: ""}[unit] }});
        }
    }
    workgroupBarrier();
{% endfor %}
    if (!is_whole) {
        for (var g = thread; g < GROUP; g += THREADS) {
            splits[split_at + g * (VALUE_UNITS + 1u) + VALUE_UNITS] = vec4(highest[g], total[g], 0.0, 0.0);
        }
    }
}
