{# Norms and rotations of heads before attention. A workgroup loads heads into `room` with `stage`;
   after a barrier `rotated` returns the elements of the result. The including file defines `room` in
   workgroup memory, load(row, base, h, u) for unit u of head h, and kind(base, h). The bindings of
   this file are the last. #}
{% if pairs %}
var<storage, read> rotation_steps: array<vec2<u32>>;
{% endif %}
{% if coordinates %}
var<storage, read> places: array<vec4<u32>>;
{% endif %}
{% if q_norm %}
var<storage, read> q_norm: array<Unit>;
{% endif %}
{% if k_norm %}
var<storage, read> k_norm: array<Unit>;
{% endif %}
const HEAD_DIM = {{ unit * units }}u;
const QUERY = 0u;
const KEY = 1u;
const VALUE = 2u;

{% if q_norm or k_norm %}
var<workgroup> factors: array<f32, {{ staged }}>;
{% endif %}
{% if pairs %}
const PAIRS = {{ pairs }}u;
var<workgroup> angles: array<vec2<f32>, {{ pairs }}>;
{% endif %}

// Loads heads from memory. A subgroup loads a head, so that the norm's sum needs no barrier.
fn stage(
    row: u32,
    base: u32,
    count: u32,
    position: u32,
    subgroup: u32,
    subgroups: u32,
    lane: u32,
    width: u32,
) {
    for (var h = subgroup; h < count; h += subgroups) {
        var sum = 0.0;
        for (var u = lane; u < UNITS; u += width) {
            var v = load(row, base, h, u);
            sum += {{ "dot(v, v)" if unit > 1 else "v * v" }};
{% if q_norm %}
            if (kind(base, h) == QUERY) {
                v *= q_norm[u];
            }
{% endif %}
{% if k_norm %}
            if (kind(base, h) == KEY) {
                v *= k_norm[u];
            }
{% endif %}
            room[h * UNITS + u] = v;
        }
{% if q_norm or k_norm %}
        let mean = subgroupAdd(sum) / f32(HEAD_DIM);
        if (lane == 0u) {
            var factor = 1.0;
{% if q_norm %}
            if (kind(base, h) == QUERY) {
                factor = inverseSqrt(mean + {{ q_norm }});
            }
{% endif %}
{% if k_norm %}
            if (kind(base, h) == KEY) {
                factor = inverseSqrt(mean + {{ k_norm }});
            }
{% endif %}
            factors[h] = factor;
        }
{% endif %}
    }
{% if pairs %}
    for (var pair = subgroup * width + lane; pair < PAIRS; pair += THREADS) {
        angles[pair] = cosine_and_sine({{ "coordinate(row, position, pair)" if coordinates else "position" }}, pair){{ " * " ~ rope_factor if rope_factor }};
    }
{% endif %}
}

// element d after the norm
fn normed(h: u32, d: u32) -> f32 {
    let x = room[h * UNITS + d / {{ unit }}u]{{ "[d % " ~ unit ~ "u]" if unit > 1 }};
    return x{{ " * factors[h]" if q_norm or k_norm }};
}

{% if pairs %}
{% if coordinates %}
// The coordinate of a row by which a pair rotates: places have its distance from the position.
{% if coordinates == "axes" %}
// The axes of pairs come after their steps.
{% endif %}
fn coordinate(row: u32, position: u32, pair: u32) -> u32 {
    return position + places[2u * row]{{ "[rotation_steps[PAIRS + pair].x]" if coordinates == "axes" else ".x" }};
}

{% endif %}
// Cosine and sine of position · frequency. The angle is a fraction of a full turn in 64 bits,
// modulo one. It is exact at all positions, in contrast to a hardware sine of a large angle.
fn cosine_and_sine(position: u32, pair: u32) -> vec2<f32> {
    let step = rotation_steps[pair];
    let p = vec2(position & 0xffffu, position >> 16u);
    let low = vec2(step.y & 0xffffu, step.y >> 16u);
    let carry = p.y * low.y + ((p.y * low.x) >> 16u) + ((p.x * low.y) >> 16u);
    let angle = position * step.x + carry;
    // the nearest quarter turn, and the rest in ±π/4, where Taylor series converge quickly
    let quarter = (angle + 0x20000000u) >> 30u;
    let x = f32(bitcast<i32>(angle - (quarter << 30u))) * {{ radians }};
    let y = x * x;
    let rest = 1.0 / 120.0 + y * (-1.0 / 5040.0 + y / 362880.0);
    let sine = x * (1.0 + y * (-1.0 / 6.0 + y * rest));
    let cosine = 1.0 + y * (-0.5 + y * (1.0 / 24.0 + y * (-1.0 / 720.0 + y / 40320.0)));
    let odd = (quarter & 1u) == 1u;
    let c = select(cosine, sine, odd);
    let s = select(sine, cosine, odd);
    return vec2(select(c, -c, quarter == 1u || quarter == 2u), select(s, -s, quarter >= 2u));
}

// element d after the norm and the rotation
fn rotated(h: u32, d: u32) -> f32 {
    let x = normed(h, d);
    if (d >= 2u * PAIRS) {
        return x;
    }
{% if interleaved %}
    let pair = d / 2u;
    let first = (d & 1u) == 0u;
    let other = d ^ 1u;
{% elif quarters %}
    let within = d % PAIRS;
    let pair = d / PAIRS * {{ pairs // 2 }}u + within % {{ pairs // 2 }}u;
    let first = within < {{ pairs // 2 }}u;
    let other = select(d - {{ pairs // 2 }}u, d + {{ pairs // 2 }}u, first);
{% else %}
    let pair = d % PAIRS;
    let first = d < PAIRS;
    let other = select(pair, pair + PAIRS, first);
{% endif %}
    let y = normed(h, other);
    let a = angles[pair];
    return fma(x, a.x, select(y, -y, first) * a.y);
}
{% else %}
fn rotated(h: u32, d: u32) -> f32 {
    return normed(h, d);
}
{% endif %}

fn rotated_unit(h: u32, u: u32) -> Unit {
    return Unit(
{% for c in range(unit) %}
        rotated(h, u * {{ unit }}u + {{ c }}u),
{% endfor %}
    );
}
