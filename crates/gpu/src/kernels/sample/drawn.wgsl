{# The raw logit of the token that was just drawn, into the results: by one workgroup a want. #}
{% extends "sample/kernel.wgsl" %}
{% block declarations %}
var<storage, read> logits: array<u32>;
{% include "sample/params.wgsl" %}
{% include "sample/state.wgsl" %}
var<storage, read> state: array<vec2<u32>>;
var<storage, read> saved: array<vec2<u32>>;
var<storage, read_write> results: array<u32>;

var<workgroup> place: atomic<u32>;
{% endblock %}
{% block body %}
    if (param(want, LOG_PROBS) == 0u) {
        return;
    }
    // the draw has advanced the state
    let result = result_at(want, repeat_at(want, state[want]) - 1u);
    let token = results[result];
    if (thread == 0u) {
        atomicStore(&place, NONE);
    }
    workgroupBarrier();
    let saved_at = want * {{ saved }}u;
    // biases come first: a penalty saves what a bias has changed
    for (var i = thread; i < param(want, BIAS_COUNT); i += {{ threads }}u) {
        if (saved[saved_at + i].x == token) {
            atomicMin(&place, i);
        }
    }
    let history = param(want, RECENT_COUNT) + pending_at(want, state[want]) - 1u;
    let count = min(history, param(want, WINDOW_SIZE));
    for (var i = thread; i < count; i += {{ threads }}u) {
        if (saved[saved_at + {{ bias }}u + i].x == token) {
            atomicMin(&place, {{ bias }}u + i);
        }
    }
    workgroupBarrier();
    if (thread == 0u && token != NONE) {
        let at = atomicLoad(&place);
        var raw = 0u;
        if (at == NONE) {
            raw = logits[param(want, LOGITS_ROW) * {{ vocab }}u + token];
        } else {
            raw = saved[saved_at + at].y;
        }
        results[result + 5u] = raw;
    }
{% endblock %}
