{# Draws among all tokens that the search left, each workgroup for its share of the vocabulary. #}
{% include "sample/types.wgsl" %}
{% include "sample/logits.wgsl" %}
@group(0) @binding(1) var<storage, read> rule: Rule;
@group(0) @binding(2) var<storage, read> state: State;
@group(0) @binding(3) var<storage, read> before: Search;
@group(0) @binding(4) var<storage, read> bins: array<u32>;
@group(0) @binding(5) var<storage, read_write> draws: array<vec2<u32>>;

{% include "sample/numbers.wgsl" %}
{% include "sample/noise.wgsl" %}
{% include "sample/best.wgsl" %}
{% include "sample/cut.wgsl" %}

fn read_bin(i: u32) -> u32 {
    return bins[i];
}

{% include "sample/search.wgsl" %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let thread = subgroup * width + lane;
    let search = resolved(thread, subgroup, subgroups, lane, width);
    let at = group.x * {{ threads }}u + thread;
    let four = keys(at);
    let random = words(at);
    var mine = vec2(0u);
{% for j in range(4) %}
    let token{{ j }} = 4u * at + {{ j }}u;
    if (is_left(search.limit, four[{{ j }}], rank_of(token{{ j }}))
        && is_left(search.cut, four[{{ j }}], rank_of(token{{ j }}))
        && natural(search.greatest, four[{{ j }}]) <= rule.reach) {
        let value = vec2(drawn(random[{{ j }}], search.greatest, four[{{ j }}]), token{{ j }});
        if (is_better(value, mine)) {
            mine = value;
        }
    }
{% endfor %}
    let best = best_of(mine, subgroup, subgroups, lane);
    if (thread == 0u) {
        draws[group.x] = best;
    }
}
