{# The logits [vocab] of a want, four consecutive tokens at a time. #}
{% include "sample/key.wgsl" %}
const VOCAB = {{ vocab }}u;
const TOKENS = {{ tokens }}u;

// where the want's logits begin, in elements of the array, and its mask in the parameters
var<private> logits_at: u32;
var<private> mask_at: u32;

fn begin_logits(want: u32) {
    mask_at = param(want, MASK);
{% if vocab % 4 == 0 %}
    logits_at = param(want, LOGITS_ROW) * (VOCAB / 4u);
{% else %}
    logits_at = param(want, LOGITS_ROW) * VOCAB;
{% endif %}
}

// The bits of four logits; NaN after the last.
{% if vocab % 4 == 0 %}
var<storage, read> logits: array<vec4<u32>>;

fn load(i: u32) -> vec4<u32> {
    if (i >= VOCAB / 4u) {
        return vec4(NONE);
    }
    return logits[logits_at + i];
}
{% else %}
var<storage, read> logits: array<u32>;

fn load(i: u32) -> vec4<u32> {
    var all = vec4(NONE);
{% for j in range(4) %}
    if (4u * i + {{ j }}u < VOCAB) {
        all[{{ j }}] = logits[logits_at + 4u * i + {{ j }}u];
    }
{% endfor %}
    return all;
}
{% endif %}

fn keys_of(bits: vec4<u32>) -> vec4<u32> {
    return vec4(key_of(bits.x), key_of(bits.y), key_of(bits.z), key_of(bits.w));
}

// The keys of four loaded logits, with 0 for tokens that must not be drawn.
fn drawable(i: u32, bits: vec4<u32>) -> vec4<u32> {
    var keys = keys_of(bits);
{% if tokens < (vocab + 3) // 4 * 4 %}
    keys = select(vec4(0u), keys, 4u * i + vec4(0u, 1u, 2u, 3u) < vec4(TOKENS));
{% endif %}
{% if not raw %}
    if (mask_at != NONE && 4u * i < TOKENS) {
        let allowed = params[mask_at + i / 8u] >> (4u * (i % 8u));
        keys = select(vec4(0u), keys, (vec4(allowed) & vec4(1u, 2u, 4u, 8u)) != vec4(0u));
    }
{% endif %}
    return keys;
}

fn keys(i: u32) -> vec4<u32> {
    return drawable(i, load(i));
}
