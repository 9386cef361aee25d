{# Dot products of attention kernels. Scores are scaled by log2(e), so that weights are exp2. #}
// in place of -∞, because its difference with itself is no NaN
const LOWEST = -1e30;

// sum + a · b, as a chain of fused multiply-adds
fn add_dot(a: Unit, b: Unit, sum: f32) -> f32 {
{% if unit == 4 %}
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
{% else %}
    return fma(a.y, b.y, fma(a.x, b.x, sum));
{% endif %}
}
