{# Single f32 operations on bits, rounded like those of IEEE 754 whatever a compiler makes of floats.
   Subnormal values count as 0. Infinities and NaN are computed by their bits, because compilers may
   assume that there are none. #}
// A 0 that no compiler knows to be one, so that it can neither contract nor reorder operations.
var<private> opaque_zero: u32;

const INFINITY = 0x7f800000u;
const NAN = 0x7fc00000u;

fn flushed(bits: u32) -> u32 {
    return select(bits, 0u, (bits & INFINITY) == 0u);
}

// a + b of flushed values.
fn added(a: u32, b: u32) -> u32 {
    let size_a = a & 0x7fffffffu;
    let size_b = b & 0x7fffffffu;
    if (size_a >= INFINITY || size_b >= INFINITY) {
        let is_nan = size_a > INFINITY || size_b > INFINITY
            || (size_a == INFINITY && size_b == INFINITY && a != b);
        return select(select(b, a, size_a == INFINITY), NAN, is_nan);
    }
    return flushed(bitcast<u32>(bitcast<f32>(a) + bitcast<f32>(b)) ^ opaque_zero);
}

// a · b of flushed values.
fn multiplied(a: u32, b: u32) -> u32 {
    let size_a = a & 0x7fffffffu;
    let size_b = b & 0x7fffffffu;
    if (size_a >= INFINITY || size_b >= INFINITY) {
        let is_nan = size_a > INFINITY || size_b > INFINITY || size_a == 0u || size_b == 0u;
        return select(INFINITY | ((a ^ b) & 0x80000000u), NAN, is_nan);
    }
    return flushed(bitcast<u32>(bitcast<f32>(a) * bitcast<f32>(b)) ^ opaque_zero);
}
