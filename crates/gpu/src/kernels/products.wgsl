{# What attention kernels compute with. Scores are in units of ln 2, so that exp2 serves. #}
// stands for -∞, and leaves no NaN behind when it is subtracted from itself
const LOWEST = -1e30;

// sum + a · b, as a chain that becomes fused multiply-adds
fn add_dot(a: Unit, b: Unit, sum: f32) -> f32 {
{% if unit == 4 %}
    return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
{% else %}
    return sum + a.x * b.x + a.y * b.y;
{% endif %}
}

// the first position that a query at `position` sees
fn first_visible(position: u32) -> u32 {
{% if window %}
    return position + 1u - min(position + 1u, {{ window }}u);
{% else %}
    return 0u;
{% endif %}
}
