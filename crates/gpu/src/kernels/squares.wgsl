{# The factor of a norm, from the squares of a row that the threads of a workgroup sum. The including
   file defines K and `squares`, partial sums [slots, subgroups] in workgroup memory. #}
fn add_squares(v: vec4<f32>, sum: f32) -> f32 {
    return sum + fma(v.w, v.w, fma(v.z, v.z, fma(v.y, v.y, v.x * v.x)));
}

// Writes the subgroup's partial sum of the squares of row r. The factor of a norm is the same for all
// elements of a row, so it is applied to the sums of products, not to the activations: those have
// the same codes without it.
fn note_squares(r: u32, sum: f32, subgroup: u32, lane: u32) {
    let all = subgroupAdd(sum);
    if (lane == 0u) {
        squares[r * {{ subgroups }}u + subgroup] = all;
    }
}

// 1 / sqrt(mean(x²) + eps) of row r
fn factor(r: u32, subgroups: u32) -> f32 {
    var all = 0.0;
    for (var i = 0u; i < subgroups; i++) {
        all += squares[r * {{ subgroups }}u + i];
    }
    return inverseSqrt(all / f32(K) + {{ eps }});
}
