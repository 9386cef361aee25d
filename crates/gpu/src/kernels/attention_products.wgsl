{# Dot products of attention kernels. Scores are scaled by log2(e), so that weights are exp2. #}
// in place of -∞, because its difference with itself is no NaN
const LOWEST = -1e30;

// sum + a · b, as a chain of fused multiply-adds
fn add_dot(a: Unit, b: Unit, sum: f32) -> f32 {
{% if unit == 4 %}
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
{% elif unit == 1 %}
    return fma(a, b, sum);
{% else %}
    return fma(a.y, b.y, fma(a.x, b.x, sum));
{% endif %}
}
{% if alibi is not none %}

// The slope of ALiBi (arXiv 2108.12409), times log2(e).
fn slope(head: u32) -> f32 {
    let below = head < {{ alibi.power }}u;
    let exponent = select(f32(2u * (head - {{ alibi.power }}u) + 1u) * 0.5, f32(head + 1u), below);
    return {{ log2_e }} * exp2({{ alibi.step }} * exponent);
}
{% endif %}
{% if softcap or alibi is not none %}

{% for type, suffix in [["f32", ""], ["vec4<f32>", "4"]] %}
// The score of a product of query and key at a distance.
fn scored{{ suffix }}(product: {{ type }}, slope: f32, distance: {{ type }}) -> {{ type }} {
    var score = product;
{% if softcap %}
    // drivers may compute tanh from exponentials, which overflow; beyond ±15 it is ±1 in f32
    score = {{ softcap }} * tanh(clamp(score, {{ type }}(-15.0), {{ type }}(15.0)));
{% endif %}
{% if alibi is not none %}
    score -= slope * distance;
{% endif %}
    return score;
}
{% endfor %}
{% endif %}
