{# The sum of exponentials of the raw logits (LogSum of crates/sampling/src/log_probs.rs), bit for
   bit: each workgroup sums a part of the vocabulary. #}
{% extends "sample/kernel.wgsl" %}
{% block declarations %}
{% include "sample/params.wgsl" %}
{% include "sample/logits.wgsl" %}
{% include "sample/numbers.wgsl" %}
{% include "sample/best.wgsl" %}
{% include "sample/sum64.wgsl" %}
var<storage, read> peaks: array<u32>;
// a sum for each workgroup, and the greatest logit's key after the last
var<storage, read_write> log_sums: array<vec2<u32>>;

// 2^-distance in units of 2⁻⁴⁴.
fn term(distance: u32) -> vec2<u32> {
    let octaves = distance >> {{ fraction }}u;
    let mantissa = mantissa_of(distance);
    let low = mantissa << 13u;
    let high = mantissa >> 19u;
    if (octaves >= 32u) {
        return vec2(select(0u, high >> (octaves & 31u), octaves < 64u), 0u);
    }
    if (octaves == 0u) {
        return vec2(low, high);
    }
    return vec2((low >> octaves) | (high << (32u - octaves)), high >> octaves);
}
{% endblock %}
{% block body %}
    if (param(want, LOG_PROBS) == 0u) {
        return;
    }
    begin_logits(want);
    var peak = 0u;
    for (var i = thread; i < {{ chunks }}u; i += {{ threads }}u) {
        peak = max(peak, peaks[want * {{ chunks }}u + i]);
    }
    let greatest = best_of(vec2(peak, 0u), subgroup, subgroups, lane).x;
    var sum = vec2(0u);
    for (var iteration = 0u; iteration < {{ iterations }}u; iteration++) {
        let four = keys_of(load((group.x * {{ iterations }}u + iteration) * {{ threads }}u + thread));
{% for j in range(4) %}
        if (four[{{ j }}] != 0u) {
            sum = add64(sum, term(natural(greatest, four[{{ j }}])));
        }
{% endfor %}
    }
    let all = sum_of(sum, thread);
    if (thread == 0u) {
        let at = want * {{ groups + 1 }}u;
        log_sums[at + group.x] = all;
        if (group.x == 0u) {
            log_sums[at + {{ groups }}u] = vec2(greatest, 0u);
        }
    }
{% endblock %}
