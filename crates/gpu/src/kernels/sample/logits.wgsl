{# The keys of four logits in a row; 0 after the last. #}
const VOCAB = {{ vocab }}u;

// A number whose order is that of the logits, -0 and 0 being one; 0 for NaN.
fn key_of(bits: u32) -> u32 {
    let positive = select(bits, 0u, bits == 0x80000000u);
    let key = select(positive | 0x80000000u, ~positive, (positive >> 31u) == 1u);
    return select(key, 0u, (bits & 0x7fffffffu) > 0x7f800000u);
}

{% if vocab % 4 == 0 %}
@group(0) @binding(0) var<storage, read> logits: array<vec4<u32>>;

fn keys(i: u32) -> vec4<u32> {
    if (i >= VOCAB / 4u) {
        return vec4(0u);
    }
    let bits = logits[i];
    return vec4(key_of(bits.x), key_of(bits.y), key_of(bits.z), key_of(bits.w));
}
{% else %}
@group(0) @binding(0) var<storage, read> logits: array<u32>;

fn keys(i: u32) -> vec4<u32> {
    var all = vec4(0u);
{% for j in range(4) %}
    if (4u * i + {{ j }}u < VOCAB) {
        all[{{ j }}] = key_of(logits[4u * i + {{ j }}u]);
    }
{% endfor %}
    return all;
}
{% endif %}
