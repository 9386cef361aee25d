{# Merges the KV splits of attend_decode.wgsl: each has the sum of its weighted values, then its
   maximum and the sum of its weights. A workgroup merges a head of a row. #}
const HEADS = {{ heads }}u;
const UNITS = {{ value_units }}u;
const STRANDS = {{ strands }}u;

var<storage, read> rows: array<vec4<u32>>;
var<storage, read> splits: array<vec4<f32>>;
var<storage, read_write> a: array<{{ "f32" if unit == 1 else "vec%s<f32>"|format(unit) }}>;
{% if sinks %}
var<storage, read> sinks: array<f32>;
{% endif %}

{% include "kv_splits.wgsl" %}

var<workgroup> sums: array<vec4<f32>, {{ threads }}>;
var<workgroup> states: array<vec2<f32>, {{ threads }}>;

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let head = group.y * HEADS + group.x;
    let next = groups.y * HEADS * (UNITS + 1u);
    let begin = head * (UNITS + 1u);
    let row = rows[group.y];
    let pages = last_visible(row) / {{ page }}u + 1u - first_visible(row) / {{ page }}u;
    let each = split_pages(pages);
    let count = (pages + each - 1u) / each;
    if (count == 1u) {
        // attend_decode.wgsl has written the result
        return;
    }
    let strand = thread / UNITS;
    let unit = thread % UNITS;
    // maximum and sum of the weights
    var state = vec2(-1e30, 0.0);
{% if sinks %}
    // the sink has a weight and no value
    if (strand == 0u) {
        state = vec2(sinks[group.x] * {{ log2_e }}, 1.0);
    }
{% endif %}
    var sum = vec4(0.0);
    if (strand < STRANDS) {
        for (var p = strand; p < count; p += {{ at_once }}u * STRANDS) {
{% for n in range(at_once) %}
            let at{{ n }} = begin + min(p + {{ n }}u * STRANDS, count - 1u) * next;
            let state{{ n }} = splits[at{{ n }} + UNITS].xy;
            let value{{ n }} = splits[at{{ n }} + unit];
{% endfor %}
{% for n in range(at_once) %}
            if (p + {{ n }}u * STRANDS < count) {
                let top = max(state.x, state{{ n }}.x);
                let factors = exp2(vec2(state.x, state{{ n }}.x) - top);
                sum = sum * factors.x + value{{ n }} * factors.y;
                state = vec2(top, state.y * factors.x + state{{ n }}.y * factors.y);
            }
{% endfor %}
        }
    }
    sums[thread] = sum;
    states[thread] = state;
    workgroupBarrier();
    if (thread < UNITS) {
        for (var s = 1u; s < min(STRANDS, count); s++) {
            let other = states[s * UNITS + unit];
            let top = max(state.x, other.x);
            let factors = exp2(vec2(state.x, other.x) - top);
            sum = sum * factors.x + sums[s * UNITS + unit] * factors.y;
            state = vec2(top, state.y * factors.x + other.y * factors.y);
        }
        let result = sum / state.y;
        a[head * UNITS + unit] = result{{ {1: ".x", 2: ".xy", 4: ""}[unit] }};
    }
}
