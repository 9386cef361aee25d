{# Sums of 64-bit integers, as two words with the lower one first. #}
var<workgroup> partial: array<vec2<u32>, {{ threads }}>;

fn add64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2(low, a.y + b.y + select(0u, 1u, low < a.x));
}

// The sum over all threads, in the first one.
fn sum_of(mine: vec2<u32>, thread: u32) -> vec2<u32> {
    partial[thread] = mine;
    workgroupBarrier();
    for (var half = {{ threads // 2 }}u; half > 0u; half /= 2u) {
        if (thread < half) {
            partial[thread] = add64(partial[thread], partial[thread + half]);
        }
        workgroupBarrier();
    }
    return partial[0];
}
