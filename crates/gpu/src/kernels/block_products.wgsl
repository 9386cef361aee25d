{# Products of units of weights in blocks with activations in 8 bits. Needs CHUNK, `codes` and
   `scales` in workgroup memory, and the decoders of `matrices`. #}
struct Activations {
    first: vec4<u32>,
    second: vec4<u32>,
    scale: f32,
    sums: vec2<i32>,
}

fn activations(r: u32, unit: u32) -> Activations {
    let s = scales[r * CHUNK + unit];
    let sums = bitcast<i32>(s.y);
    return Activations(
        codes[r * 2u * CHUNK + unit],
        codes[(r * 2u + 1u) * CHUNK + unit],
        s.x,
        vec2((sums << 16u) >> 16u, sums >> 16u),
    );
}

// The float of an integer below 2²² in magnitude, by the bits of 1.5 · 2²³ + i: a conversion takes
// several times as long.
fn exact(i: i32) -> f32 {
    return bitcast<f32>(0x4b400000i + i) - 12582912.0;
}

fn four(a: vec4<u32>, b: vec4<u32>) -> i32 {
    return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z)
        + dot4I8Packed(a.w, b.w);
}

{% for matrix in matrices if matrix.defines %}
{% set kind = matrix.kind %}
{% set of = matrix.of %}
// sum + the product of a unit: in fused steps, so that all variants round alike
fn add_product{{ kind }}(u: Unit{{ kind }}, a: Activations, before: f32) -> f32 {
{% if of.split %}
    let first = exact(four(u.first, a.first){% if of.zero %} - ZERO{{ kind }} * a.sums.x{% endif %});
    let second = exact(four(u.second, a.second){% if of.zero %} - ZERO{{ kind }} * a.sums.y{% endif %});
    var sum = fma(u.scale.x, first, u.scale.y * second);
{% if of.has_min %}
    sum = fma(u.min.x, exact(a.sums.x), fma(u.min.y, exact(a.sums.y), sum));
{% endif %}
{% else %}
    let all = four(u.first, a.first) + four(u.second, a.second){% if of.zero %} - ZERO{{ kind }} * (a.sums.x + a.sums.y){% endif %};
    var sum = u.scale.x * exact(all);
{% if of.has_min %}
    sum = fma(u.min.x, exact(a.sums.x + a.sums.y), sum);
{% endif %}
{% endif %}
    return fma(a.scale, sum, before);
}
{% endfor %}
