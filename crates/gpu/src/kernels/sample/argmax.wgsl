{# The best of COUNT pairs, by one workgroup: it becomes the next token, or, with `begin`, the
   likeliest token that a search of a cut begins with. #}
{% include "sample/types.wgsl" %}
{% include "sample/best.wgsl" %}
@group(0) @binding(0) var<storage, read> pairs: array<vec2<u32>>;
{% if begin %}
{% include "sample/cut.wgsl" %}
@group(0) @binding(1) var<storage, read> rule: Rule;
@group(0) @binding(2) var<storage, read_write> search: Search;
@group(0) @binding(3) var<storage, read_write> bins: array<u32>;
{% else %}
{% include "sample/record.wgsl" %}
@group(0) @binding(1) var<storage, read_write> rows: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> tokens: array<u32>;
@group(0) @binding(3) var<storage, read_write> state: State;
{% endif %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let thread = subgroup * width + lane;
    var mine = vec2(0u);
    for (var i = thread; i < {{ count }}u; i += {{ threads }}u) {
        let pair = pairs[i];
        if (is_better(pair, mine)) {
            mine = pair;
        }
    }
    let best = best_of(mine, subgroup, subgroups, lane);
{% if begin %}
    let first = select(5u, 0u, rule.top_k < {{ vocab }}u);
    for (var i = thread; i < 2u * BINS; i += {{ threads }}u) {
        bins[first % 3u * 2u * BINS + i] = 0u;
    }
    if (thread == 0u) {
        search = Search(Cut(0u, 0u), Cut(0u, 0u), best.x, first, 0u, vec3(0u), vec3(0u));
    }
{% else %}
    if (thread == 0u) {
        record(best);
    }
{% endif %}
}
