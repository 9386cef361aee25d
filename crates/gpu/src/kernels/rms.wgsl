{# The factor of a norm for a row, computed by a workgroup. The including file defines K, THREADS and
   x, an array of f32 or, with `vector`, of vec4<f32>. #}
var<workgroup> squares: array<f32, {{ threads }}>;

// 1 / sqrt(mean(x²) + eps) of row `row`
fn factor(row: u32, thread: u32, subgroup: u32, subgroups: u32, lane: u32) -> f32 {
    var sum = 0.0;
{% if vector %}
    for (var i = thread; i < K / 4u; i += THREADS) {
        let v = x[row * (K / 4u) + i];
        sum += dot(v, v);
    }
{% else %}
    for (var i = thread; i < K; i += THREADS) {
        let v = x[row * K + i];
        sum += v * v;
    }
{% endif %}
    sum = subgroupAdd(sum);
    if (lane == 0u) {
        squares[subgroup] = sum;
    }
    workgroupBarrier();
    var all = 0.0;
    for (var i = 0u; i < subgroups; i++) {
        all += squares[i];
    }
    workgroupBarrier();
    return inverseSqrt(all / f32(K) + {{ eps }});
}
