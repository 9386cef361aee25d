{# The likeliest tokens of the raw logits in order, and the sum of exponentials, into the results: by
   one workgroup a want. #}
{% extends "sample/kernel.wgsl" %}
{% block declarations %}
{% include "sample/params.wgsl" %}
{% include "sample/logits.wgsl" %}
{% include "sample/state.wgsl" %}
var<storage, read> best: array<vec2<u32>>;
var<storage, read> log_sums: array<vec2<u32>>;
var<storage, read> state: array<vec2<u32>>;
var<storage, read_write> results: array<u32>;

{% include "sample/best.wgsl" %}
{% include "sample/sum64.wgsl" %}
{% include "sample/cut.wgsl" %}
{% include "sample/likeliest.wgsl" %}
{% endblock %}
{% block body %}
    let top = param(want, LOG_PROBS);
    if (top == 0u) {
        return;
    }
    let result = result_at(want, repeat_at(want, state[want]));
    var mine = vec2(0u);
    for (var i = thread; i < {{ groups }}u; i += {{ threads }}u) {
        mine = add64(mine, log_sums[want * {{ groups + 1 }}u + i]);
    }
    let sum = sum_of(mine, thread);
    if (thread == 0u) {
        results[result + 2u] = logit_bits(log_sums[want * {{ groups + 1 }}u + {{ groups }}u].x);
        results[result + 3u] = sum.x;
        results[result + 4u] = sum.y;
    }
    let k = top - 1u;
    if (k == 0u) {
        return;
    }
    begin_logits(want);
    let count = select_likeliest(want, k, thread, subgroup, subgroups, lane, width);
    if (thread < k && thread >= count) {
        results[result + {{ top_at }}u + 2u * thread] = NONE;
    }
    if (thread < count) {
        let own = candidates[thread];
        var rank = 0u;
        for (var i = 0u; i < count; i++) {
            rank += select(0u, 1u, is_better(candidates[i], own));
        }
        if (rank < k) {
            results[result + {{ top_at }}u + 2u * rank] = own.y;
            results[result + {{ top_at }}u + 2u * rank + 1u] = logit_bits(own.x);
        }
    }
{% endblock %}
