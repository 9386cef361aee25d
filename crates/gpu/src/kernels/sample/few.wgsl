{# Draws among at most {{ few }} tokens, by one workgroup: top-k selects them, and the rank and the sum
   of weights before each say which ones top-k and top-p keep. #}
{% extends "sample/kernel.wgsl" %}
{% block declarations %}
{% include "sample/params.wgsl" %}
{% include "sample/logits.wgsl" %}
{% include "sample/state.wgsl" %}
var<storage, read> best: array<vec2<u32>>;
var<storage, read_write> state: array<vec2<u32>>;
var<storage, read_write> rows: array<vec4<u32>>;
var<storage, read_write> recent: array<u32>;
var<storage, read_write> results: array<u32>;

{% include "sample/numbers.wgsl" %}
{% include "sample/noise.wgsl" %}
{% include "sample/best.wgsl" %}
{% include "sample/cut.wgsl" %}
{% include "sample/likeliest.wgsl" %}
{% include "sample/enough.wgsl" %}
{% include "sample/record.wgsl" %}

var<workgroup> weights: array<u32, {{ threads }}>;
var<workgroup> total: vec3<u32>;
{% endblock %}
{% block body %}
    if (param(want, KIND) != FEW) {
        return;
    }
    begin_logits(want);
    begin_noise(want, state[want]);
    let k = min(param(want, TOP_K), {{ few }}u);
    let count = select_likeliest(want, k, thread, subgroup, subgroups, lane, width);

    // each thread has one candidate at most
    let is_mine = thread < count;
    var own = vec2(0u);
    if (is_mine) {
        own = candidates[thread];
    }
    let greatest = best_of(own, subgroup, subgroups, lane).x;
    let away = natural(greatest, own.x);
    let own_weight = weight(away);
    weights[thread] = own_weight;
    workgroupBarrier();
    // the number of better candidates, and the sum of their weights
    var rank = 0u;
    var sum = vec3(0u);
    for (var i = 0u; i < count; i++) {
        if (is_better(candidates[i], own)) {
            rank += 1u;
            sum += vec3(weights[i] & 0xfffffu, weights[i] >> 20u, 0u);
        }
    }
    sum = carried(sum);
    if (is_mine && rank == min(k, count) - 1u) {
        total = carried(sum + vec3(own_weight & 0xfffffu, own_weight >> 20u, 0u));
    }
    let goal = enough_of(workgroupUniformLoad(&total), param(want, TOP_P));
    var mine = vec2(0u);
    if (is_mine && rank < k && !reaches(sum, goal) && away <= param(want, REACH)) {
        mine = vec2(drawn(want, words(own.y / 4u)[own.y % 4u], greatest, own.x), own.y);
    }
    let choice = best_of(mine, subgroup, subgroups, lane);
    if (thread == 0u) {
        record(want, choice);
    }
{% endblock %}
