{# Quantizes activations to 8-bit codes in units of 32 with a scale, with the codes of crates/cpu.
   The including file defines K, CHUNK, x, norm_weight if there is a norm,
   keep_code(slot, unit, word, code) for word 0 to 7 of a unit, and keep_scale(slot, unit, value) for
   its scale and the sums of the halves' codes. #}
fn pack(v: vec4<f32>) -> u32 {
    return pack4xI8(vec4<i32>(v));
}

{% set own = 8 // share %}
{% set words = chunk * share %}
{% set rounds = (words + threads * together - 1) // (threads * together) %}
// Quantizes the units start .. start + CHUNK of row `row` into slot r: {{ share }} lanes compute a
// unit. Loads are issued together. Returns this thread's partial sum of squares.
fn prepare(r: u32, row: u32, start: u32, thread: u32) -> f32 {
    var sum_of_squares = 0.0;
    let begin = row * (K / 4u);
    let within = thread % {{ share }}u;
{% if rounds > 1 %}
    for (var base = thread; base < {{ rounds * threads * together }}u; base += {{ threads * together }}u) {
{% else %}
    {
        let base = thread;
{% endif %}
{% for i in range(together) %}
        let unit{{ i }} = (base + {{ i * threads }}u) / {{ share }}u;
        let from{{ i }} = (start + unit{{ i }}) * 8u + within * {{ own }}u;
        let inside{{ i }} = unit{{ i }} < CHUNK && from{{ i }} < K / 4u;
        let at{{ i }} = min(from{{ i }}, K / 4u - {{ own }}u);
{% for j in range(own) %}
        let x{{ i }}_{{ j }} = x[begin + at{{ i }} + {{ j }}u];
{% if norm %}
        let v{{ i }}_{{ j }} = x{{ i }}_{{ j }} * norm_weight[at{{ i }} + {{ j }}u];
{% endif %}
{% endfor %}
{% endfor %}
{% set v = "v" if norm else "x" %}
{% for i in range(together) %}
        {
            // magnitudes as integers have the order of floats, with infinities and NaN last
            var m = vec4(0u);
{% for j in range(own) %}
            m = max(m, bitcast<vec4<u32>>(abs({{ v }}{{ i }}_{{ j }})));
{% endfor %}
            var most = max(max(m.x, m.y), max(m.z, m.w));
{% for mask in [1, 2, 4] if mask < share %}
            most = max(most, subgroupShuffleXor(most, {{ mask }}u));
{% endfor %}
            let magnitude = bitcast<f32>(most);
            let usable = most < 0x7f800000u && magnitude > 1e-35;
            let inverse = select(0.0, 127.0 / magnitude, usable);
            var total = vec4(0.0);
{% for j in range(own) %}
            let q{{ j }} = select(vec4(0.0), round({{ v }}{{ i }}_{{ j }} * inverse), vec4(usable));
            total += q{{ j }};
{% endfor %}
            var sum = i32(total.x + total.y + total.z + total.w);
{% for mask in [1, 2] if mask < share // 2 %}
            sum += subgroupShuffleXor(sum, {{ mask }}u);
{% endfor %}
            let other = subgroupShuffleXor(sum, {{ share // 2 }}u);
            if (inside{{ i }}) {
{% if norm %}
{% for j in range(own) %}
                sum_of_squares = add_squares(x{{ i }}_{{ j }}, sum_of_squares);
{% endfor %}
{% endif %}
{% for j in range(own) %}
                let word{{ j }} = within * {{ own }}u + {{ j }}u;
                keep_code(r, unit{{ i }}, word{{ j }}, pack(q{{ j }}));
{% endfor %}
                if (within == 0u) {
                    // a row with an infinity or a NaN gives NaN
                    let scale = select(bitcast<f32>(most | 0x7fc00000u), select(0.0, magnitude / 127.0, usable), most < 0x7f800000u);
                    let sums = (u32(sum) & 0xffffu) | (u32(other) << 16u);
                    keep_scale(r, unit{{ i }}, vec2(scale, bitcast<f32>(sums)));
                }
            }
        }
{% endfor %}
    }
    return sum_of_squares;
}
