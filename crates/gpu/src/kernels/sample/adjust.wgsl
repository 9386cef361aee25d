{# Biases and penalties, in place on the want's logits, by one workgroup. The f32 operations are those
   of crates/sampling/src/adjust.rs, one at a time. Raw logits of changed tokens are saved for the
   log-probability of the drawn one. #}
{% extends "sample/kernel.wgsl" %}
{% block declarations %}
var<storage, read_write> logits: array<u32>;
{% include "sample/params.wgsl" %}
{% include "sample/state.wgsl" %}
var<storage, read> state: array<vec2<u32>>;
var<storage, read> rows: array<vec4<u32>>;
var<storage, read> recent: array<u32>;
// tokens and their bits, by the want's biases, then by the places of its history
var<storage, read_write> saved: array<vec2<u32>>;

const VOCAB = {{ vocab }}u;
const RECENT = {{ recent }}u;
const WINDOW = {{ window }}u;
{% include "sample/float.wgsl" %}

// the penalized history, NONE after its end
var<workgroup> history: array<vec4<u32>, {{ window // 4 }}>;

// Token number `i` of the want's history, oldest first.
fn token_at(want: u32, i: u32) -> u32 {
    let known = param(want, RECENT_COUNT);
    if (i < known) {
        return params[param(want, RECENT_AT) + i];
    }
    let row = rows[param(want, ROW)];
    // the newest one is that of the row's own position
    let position = row.y + 1u + i - known - pending_at(want, state[want]);
    return recent[row.z * RECENT + position % RECENT];
}

fn penalized(want: u32, bits: u32, count: u32) -> u32 {
    let old = flushed(bits);
    let is_positive = old != 0u && (old >> 31u) == 0u;
    let factor = select(param(want, MULTIPLY), param(want, DIVIDE), is_positive);
    let repeated = multiplied(old, flushed(factor));
    let frequency = flushed(param(want, FREQUENCY));
    var amount = flushed(param(want, PRESENCE));
    for (var i = 0u; i < count; i++) {
        amount = added(amount, frequency);
    }
    return added(repeated, amount ^ 0x80000000u);
}
{% endblock %}
{% block body %}
    opaque_zero = param(want, ZERO);
    let biases = param(want, BIAS_COUNT);
    let window = param(want, WINDOW_SIZE);
    if (biases == 0u && window == 0u) {
        return;
    }
    let row_at = param(want, LOGITS_ROW) * VOCAB;
    let saved_at = want * {{ saved }}u;
    for (var i = thread; i < biases; i += {{ threads }}u) {
        let at = param(want, BIAS_AT) + 2u * i;
        let id = min(params[at], VOCAB - 1u);
        let old = logits[row_at + id];
        saved[saved_at + i] = vec2(id, old);
        logits[row_at + id] = added(flushed(old), flushed(params[at + 1u]));
    }
    if (window == 0u) {
        return;
    }
    let all = param(want, RECENT_COUNT) + pending_at(want, state[want]);
    let count = min(all, window);
    for (var i = thread; i < (count + 3u) / 4u; i += {{ threads }}u) {
        var four = vec4(NONE);
{% for j in range(4) %}
        if (4u * i + {{ j }}u < count) {
            four[{{ j }}] = token_at(want, all - count + 4u * i + {{ j }}u);
        }
{% endfor %}
        history[i] = four;
    }
    storageBarrier();
    workgroupBarrier();
    for (var i = thread; i < count; i += {{ threads }}u) {
        let id = history[i / 4u][i % 4u];
        var occurrences = 0u;
        var first = NONE;
        for (var j = 0u; j < (count + 3u) / 4u; j++) {
            let same = history[j] == vec4(id);
            occurrences += dot(select(vec4(0u), vec4(1u), same), vec4(1u));
            first = select(first, j, first == NONE && any(same));
        }
        // the first of the places in one vector counts
        let place = history[first];
        let is_first = first == i / 4u
            && (i % 4u < 1u || place.x != id)
            && (i % 4u < 2u || place.y != id)
            && (i % 4u < 3u || place.z != id);
        var save = vec2(NONE, 0u);
        if (is_first && id < VOCAB) {
            let old = logits[row_at + id];
            save = vec2(id, old);
            logits[row_at + id] = penalized(want, old, occurrences);
        }
        saved[saved_at + {{ bias }}u + i] = save;
    }
{% endblock %}
