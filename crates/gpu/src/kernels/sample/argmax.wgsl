{# The best of COUNT pairs of a want, by one workgroup. It is recorded as the drawn token, or, with
   `begin`, starts the search for the cuts of top-k and top-p. #}
{% extends "sample/kernel.wgsl" %}
{% block declarations %}
var<storage, read> pairs: array<vec2<u32>>;
{% include "sample/params.wgsl" %}
{% include "sample/best.wgsl" %}
{% if begin %}
{% include "sample/cut.wgsl" %}
var<storage, read_write> searches: array<Search>;
var<storage, read_write> bins: array<u32>;
{% else %}
{% include "sample/state.wgsl" %}
var<storage, read_write> state: array<vec2<u32>>;
var<storage, read_write> rows: array<vec4<u32>>;
var<storage, read_write> recent: array<u32>;
var<storage, read_write> results: array<u32>;
{% include "sample/record.wgsl" %}
{% endif %}
{% endblock %}
{% block body %}
    if (param(want, KIND) != {{ kind }}) {
        return;
    }
    var mine = vec2(0u);
    for (var i = thread; i < {{ count }}u; i += {{ threads }}u) {
        let pair = pairs[want * {{ count }}u + i];
        if (is_better(pair, mine)) {
            mine = pair;
        }
    }
    let best = best_of(mine, subgroup, subgroups, lane);
{% if begin %}
    let first = select(LEVELS, 0u, param(want, TOP_K) < {{ tokens }}u);
    for (var i = thread; i < REGION; i += {{ threads }}u) {
        bins[bins_at(want, first) + i] = 0u;
    }
    if (thread == 0u) {
        searches[want] = Search(Cut(0u, 0u), Cut(0u, 0u), best.x, first, 0u, vec3(0u), vec3(0u));
    }
{% else %}
    if (thread == 0u) {
        record(want, best);
    }
{% endif %}
{% endblock %}
