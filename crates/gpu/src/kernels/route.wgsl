{# The choice of experts: scores from logits, the `used` greatest of score + bias, ties to the lowest
   id, and their weights. A workgroup computes a row. The rank of an expert is the number of experts
   before it, so the time does not depend on how many are chosen. #}
const EXPERTS = {{ experts }}u;
const USED = {{ used }}u;
const THREADS = {{ threads }}u;
{% if groups %}
const GROUPS = {{ groups.count }}u;
const SIZE = {{ experts // groups.count }}u;
{% endif %}

var<storage, read> logits: array<f32>;
var<storage, read_write> ids: array<f32>;
var<storage, read_write> weights: array<f32>;
{% if bias %}
var<storage, read> bias: array<f32>;
{% endif %}
{% if expert_scale %}
var<storage, read> expert_scale: array<f32>;
{% endif %}
{% if scores == "softmax" %}
{% include "sum.wgsl" %}
var<workgroup> maxima: array<f32, {{ threads }}>;
{% endif %}

var<workgroup> score: array<f32, {{ experts }}>;
// score + bias
var<workgroup> biased: array<f32, {{ experts }}>;
// the same as integers in the order of floats; 0 for experts that are not considered
var<workgroup> order: array<u32, {{ experts }}>;
var<workgroup> chosen: array<u32, {{ used }}>;
{% if groups %}
var<workgroup> group_order: array<u32, {{ groups.count }}>;
{% endif %}

// An integer that has the order of floats; both zeros are equal, and NaN is minus infinity.
const LEAST = 0x007fffffu;
fn ordered(x: f32) -> u32 {
    let any = bitcast<u32>(select(x, 0.0, x == 0.0));
    let bits = select(any, 0xff800000u, (any & 0x7fffffffu) > 0x7f800000u);
    return bits ^ select(0x80000000u, 0xffffffffu, bits >= 0x80000000u);
}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let thread = subgroup * width + lane;
    let row = group.x;
{% if scores == "softmax" %}
    var top = -3e38;
    for (var e = thread; e < EXPERTS; e += THREADS) {
        top = max(top, logits[row * EXPERTS + e]);
    }
    top = subgroupMax(top);
    if (lane == 0u) {
        maxima[subgroup] = top;
    }
    workgroupBarrier();
    for (var s = 0u; s < subgroups; s++) {
        top = max(top, maxima[s]);
    }
    var sum = 0.0;
    for (var e = thread; e < EXPERTS; e += THREADS) {
        sum += exp(logits[row * EXPERTS + e] - top);
    }
    let all = workgroup_sum(sum, subgroup, subgroups, lane);
{% endif %}
    for (var e = thread; e < EXPERTS; e += THREADS) {
        let logit = logits[row * EXPERTS + e];
{% if scores == "softmax" %}
        let own = exp(logit - top) / all;
{% elif scores == "sigmoid" %}
        let own = 1.0 / (1.0 + exp(-logit));
{% else %}
        let own = logit;
{% endif %}
        score[e] = own;
        biased[e] = own{{ " + bias[e]" if bias }};
        order[e] = ordered(biased[e]);
    }
    workgroupBarrier();
{% if groups %}
    // the sum of the greatest scores of a group; minus infinity if one of them is
    if (thread < GROUPS) {
        var first = -3e38;
        var second = -3e38;
        for (var i = 0u; i < SIZE; i++) {
            let at = thread * SIZE + i;
            let own = select(biased[at], -3e38, order[at] == LEAST);
            second = max(second, min(first, own));
            first = max(first, own);
        }
{% if groups.best == 2 %}
        group_order[thread] = select(ordered(first + second), LEAST, second == -3e38);
{% else %}
        group_order[thread] = select(ordered(first), LEAST, first == -3e38);
{% endif %}
    }
    workgroupBarrier();
    if (thread < GROUPS) {
        var rank = 0u;
        for (var g = 0u; g < GROUPS; g++) {
            let before = group_order[g] > group_order[thread]
                || (group_order[g] == group_order[thread] && g < thread);
            rank += u32(before);
        }
        if (rank >= {{ groups.used }}u) {
            for (var i = 0u; i < SIZE; i++) {
                order[thread * SIZE + i] = 0u;
            }
        }
    }
    workgroupBarrier();
{% endif %}
    for (var e = thread; e < EXPERTS; e += THREADS) {
        let own = order[e];
        var rank = 0u;
        for (var o = 0u; o < EXPERTS; o++) {
            let other = order[o];
            rank += u32(other > own || (other == own && o < e));
        }
        if (rank < USED) {
            chosen[rank] = e;
        }
    }
    workgroupBarrier();
    for (var s = thread; s < USED; s += THREADS) {
        let e = chosen[s];
        var weight = score[e];
{% if scores == "selected" %}
        var top = score[chosen[0]];
        for (var i = 1u; i < USED; i++) {
            top = max(top, score[chosen[i]]);
        }
        var all = 0.0;
        for (var i = 0u; i < USED; i++) {
            all += exp(score[chosen[i]] - top);
        }
        weight = exp(weight - top) / all;
{% endif %}
{% if normalize and scores != "selected" %}
        var total = 0.0;
        for (var i = 0u; i < USED; i++) {
            total += score[chosen[i]];
        }
        weight /= max(total, 0.00006103515625);
{% endif %}
        weight *= {{ scale }};
{% if expert_scale %}
        weight *= expert_scale[e];
{% endif %}
        ids[row * USED + s] = f32(e);
        weights[row * USED + s] = weight;
    }
}
