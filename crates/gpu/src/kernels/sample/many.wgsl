{# Draws among all tokens that the search kept, each workgroup for its part of the vocabulary. #}
{% extends "sample/kernel.wgsl" %}
{% block declarations %}
{% include "sample/params.wgsl" %}
{% include "sample/logits.wgsl" %}
{% include "sample/state.wgsl" %}
{% include "sample/numbers.wgsl" %}
{% include "sample/noise.wgsl" %}
{% include "sample/best.wgsl" %}
{% include "sample/cut.wgsl" %}
var<storage, read> state: array<vec2<u32>>;
var<storage, read> before: array<Search>;
var<storage, read> bins: array<u32>;
var<storage, read_write> draws: array<vec2<u32>>;

fn read_bin(i: u32) -> u32 {
    return bins[i];
}

{% include "sample/resolve.wgsl" %}
{% endblock %}
{% block body %}
    if (param(want, KIND) != MANY) {
        return;
    }
    begin_logits(want);
    begin_noise(want, state[want]);
    let search = resolved(want, thread, subgroup, subgroups, lane, width);
    let reach = param(want, REACH);
    let at = group.x * {{ threads }}u + thread;
    let four = keys(at);
    let random = words(at);
    var mine = vec2(0u);
{% for j in range(4) %}
    let token{{ j }} = 4u * at + {{ j }}u;
    if (is_kept(search.limit, four[{{ j }}], rank_of(token{{ j }}))
        && is_kept(search.cut, four[{{ j }}], rank_of(token{{ j }}))
        && natural(search.greatest, four[{{ j }}]) <= reach) {
        let value = drawn(want, random[{{ j }}], search.greatest, four[{{ j }}]);
        if (is_better(vec2(value, token{{ j }}), mine)) {
            mine = vec2(value, token{{ j }});
        }
    }
{% endfor %}
    let best = best_of(mine, subgroup, subgroups, lane);
    if (thread == 0u) {
        draws[want * {{ groups }}u + group.x] = best;
    }
{% endblock %}
