{# Partial sums of the products of rows of an effort below 1 with matrices in input-major order
   (weights/lines.rs): an input is multiplied if the bits of its score |a| · ‖W‖ are at least those of the row's
   word for the matrix, where a = x or norm(x). The results are made by live_sums.wgsl.
   A workgroup has a tile of outputs and a slice of inputs; with `on_grid` off all slices, one after the other. It
   finds the live inputs of the slice and lists them in their order. Its {{ groups }} groups of 32 threads then take
   live lines in turn, or with codes blocks of 32 inputs, and their sums are added in the order of groups. So a
   row's bits depend on nothing but the row. #}
const K = {{ k }}u;
const SLICE = {{ slice }}u;
const SPLITS = {{ splits }}u;
// tiles of all matrices
const TILES = {{ tiles }}u;
const OUT = {{ outputs }}u;
const THREADS = {{ threads }}u;
const GROUPS = {{ groups }}u;
{% if blocks %}
// blocks of a slice, and groups that share one
const CHUNK = {{ slice // 32 }}u;
const SHARED = {{ shared }}u;
{% endif %}

var<storage, read> x: array<vec4<f32>>;
var<storage, read> lives: array<u32>;
{% if norm %}
var<storage, read> norm_weight: array<vec4<f32>>;
{% endif %}
{% for side in sides %}
var<storage, read> m{{ loop.index0 }}: array<{{ "vec2" if nested else "vec4" }}<u32>>;
{% endfor %}
var<storage, read_write> partial: array<f32>;

var<workgroup> sums: array<f32, {{ groups * outputs }}>;
{% if blocks %}
var<workgroup> codes: array<u32, {{ slice // 4 }}>;
var<workgroup> scales: array<f32, {{ slice // 32 }}>;
// a bit for each live input of a block, and for each live lower half
var<workgroup> masks: array<atomic<u32>, {{ slice // 32 }}>;
{% if nested %}
var<workgroup> lower_masks: array<atomic<u32>, {{ slice // 32 }}>;
{% endif %}
// in each block its live inputs and their codes, an input in 8 bits above a code; then others with the code 0
var<workgroup> entries: array<u32, {{ slice }}>;
{% else %}
// live inputs of the slice, and their activations
var<workgroup> entries: array<vec2<u32>, {{ slice }}>;
var<workgroup> totals: array<u32, {{ subgroups }}>;
{% endif %}
{% if norm %}
var<workgroup> squares: array<f32, {{ subgroups }}>;
{% include "squares.wgsl" %}
{% endif %}

{% if blocks %}
fn keep_code(r: u32, unit: u32, word: u32, code: u32) {
    codes[unit * 8u + word] = code;
}

fn keep_scale(r: u32, unit: u32, value: vec2<f32>) {
    scales[unit] = value.x;
}

{% include "quantize.wgsl" %}

// Word j has byte j of each of four words, in their order.
fn transposed(w: vec4<u32>) -> vec4<u32> {
    let even = 0x00ff00ffu;
    let p = (w.x & even) | ((w.y & even) << 8u);
    let q = ((w.x >> 8u) & even) | (w.y & ~even);
    let r = (w.z & even) | ((w.w & even) << 8u);
    let s = ((w.z >> 8u) & even) | (w.w & ~even);
    return vec4((p & 0xffffu) | (r << 16u), (q & 0xffffu) | (s << 16u), (p >> 16u) | (r & 0xffff0000u), (q >> 16u) | (s & 0xffff0000u));
}

fn dots(w: vec4<u32>, a: u32) -> vec4<i32> {
    return vec4(dot4I8Packed(w.x, a), dot4I8Packed(w.y, a), dot4I8Packed(w.z, a), dot4I8Packed(w.w, a));
}
{% endif %}

// The bits, one for each of four inputs, of those whose scores have at least the bits `least`.
fn live_ones(scores: vec4<f32>, least: u32) -> u32 {
    let is_live = (bitcast<vec4<u32>>(scores) & vec4(0x7fffffffu)) >= vec4(least);
    let ones = select(vec4(0u), vec4(1u, 2u, 4u, 8u), is_live);
    return ones.x | ones.y | ones.z | ones.w;
}

{# The four activations at `at` of a row. #}
{% macro activations() %}x[row * (K / 4u) + at]{{ " * norm_weight[at] * by" if norm }}{% endmacro %}

{# The sums of a slice of side `s`. #}
{% macro slice_of(s, side) %}
{% if blocks %}
        if (thread < CHUNK) {
            atomicStore(&masks[thread], 0u);
{% if nested %}
            atomicStore(&lower_masks[thread], 0u);
{% endif %}
        }
        _ = prepare(0u, row, split * CHUNK, thread);
        workgroupBarrier();
        let at = split * (SLICE / 4u) + thread;
        let inside = thread < SLICE / 4u && at < K / 4u;
        let within = thread % 8u * 4u;
        if (inside) {
            let a = {{ activations() }};
{% if nested %}
            let scores = a * bitcast<vec4<f32>>(vec4(m{{ s }}[{{ side.norms }}u + 2u * at], m{{ s }}[{{ side.norms }}u + 2u * at + 1u]));
            let lower = live_ones(scores * {{ of_lower }}, least);
            atomicOr(&lower_masks[thread / 8u], lower << within);
{% else %}
            let scores = a * bitcast<vec4<f32>>(m{{ s }}[{{ side.norms }}u + at]);
{% endif %}
            atomicOr(&masks[thread / 8u], live_ones(scores, least) << within);
        }
        workgroupBarrier();
        if (inside) {
            let mask = atomicLoad(&masks[thread / 8u]);
            let count = countOneBits(mask);
{% if nested %}
            let both = atomicLoad(&lower_masks[thread / 8u]) & mask;
{% endif %}
            let word = codes[thread];
            for (var j = 0u; j < 4u; j++) {
                let bit = 1u << (within + j);
                let before = bit - 1u;
                let is_live = (mask & bit) != 0u;
{% if nested %}
                // those whose lower halves are live come first
                let upper_place = countOneBits(both) + countOneBits(mask & ~both & before);
                let live_place = select(upper_place, countOneBits(both & before), (both & bit) != 0u);
{% else %}
                let live_place = countOneBits(mask & before);
{% endif %}
                let place = select(count + countOneBits(~mask & before), live_place, is_live);
                // the others fill up quads, with a line that is read anyway
                let line = select(firstTrailingBit(mask) & 31u, within + j, is_live);
                let code = select(0u, (word >> (8u * j)) & 255u, is_live);
                entries[thread / 8u * 32u + place] = (line << 8u) | code;
            }
        }
        workgroupBarrier();
        for (var b = line_group / SHARED; b < CHUNK; b += GROUPS / SHARED) {
            let count = countOneBits(atomicLoad(&masks[b]));
            if (count == 0u) {
                continue;
            }
            let quads = (count + 3u) / 4u;
{% if nested %}
            let both = countOneBits(atomicLoad(&lower_masks[b]) & atomicLoad(&masks[b]));
            var of_uppers = 0;
{% endif %}
            let of_scales = {{ side.scales }}u + ((tile * (K / 32u) + split * CHUNK + b) * 64u + lane_of_line){{ " * 2u" if nested }};
{% if nested %}
            let d0 = vec4(m{{ s }}[of_scales], m{{ s }}[of_scales + 1u]);
            let d1 = vec4(m{{ s }}[of_scales + 64u], m{{ s }}[of_scales + 65u]);
{% else %}
            let d0 = m{{ s }}[of_scales];
            let d1 = m{{ s }}[of_scales + 32u];
{% endif %}
{% for i in range(4) %}
            var z{{ i }} = vec4(0i);
{% endfor %}
            let lines = (tile * K + split * SLICE + b * 32u) * 32u + lane_of_line;
            for (var q = line_group % SHARED; q < quads; q += {{ unroll }}u * SHARED) {
{% for u in range(unroll) %}
{% for i in range(4) %}
                var e{{ u }}_{{ i }} = 0u;
                var w{{ u }}_{{ i }}: {{ "vec2" if nested else "vec4" }}<u32>;
{% if nested %}
                var v{{ u }}_{{ i }}: vec2<u32>;
{% endif %}
{% endfor %}
                let quad{{ u }} = q + {{ u }}u * SHARED;
                if (quad{{ u }} < quads) {
{% for i in range(4) %}
                    e{{ u }}_{{ i }} = entries[b * 32u + quad{{ u }} * 4u + {{ i }}u];
                    w{{ u }}_{{ i }} = m{{ s }}[lines + (e{{ u }}_{{ i }} >> 8u) * 32u];
{% endfor %}
{% if nested %}
                    if (quad{{ u }} * 4u < both) {
{% for i in range(4) %}
                        v{{ u }}_{{ i }} = m{{ s }}[{{ side.lower }}u + lines + (e{{ u }}_{{ i }} >> 8u) * 32u];
{% endfor %}
                    }
{% endif %}
                }
{% endfor %}
{% for u in range(unroll) %}
                if (quad{{ u }} < quads) {
                    let a = (e{{ u }}_0 & 255u) | ((e{{ u }}_1 & 255u) << 8u) | ((e{{ u }}_2 & 255u) << 16u) | (e{{ u }}_3 << 24u);
{% if nested %}
                    let left = min(max(both, quad{{ u }} * 4u) - quad{{ u }} * 4u, 4u);
                    let with_lower = select(a & ((1u << (8u * left)) - 1u), a, left == 4u);
                    // the lower halves of the others count as their mean
                    of_uppers += dot4I8Packed(a & ~select((1u << (8u * left)) - 1u, 0xffffffffu, left == 4u), 0x01010101u);
{% for k in range(2) %}
                    {
                        let upper = transposed(vec4({% for i in range(4) %}w{{ u }}_{{ i }}[{{ k }}]{{ ", " if not loop.last }}{% endfor %}));
                        z{{ 2 * k }} += dots((upper << vec4(4u)) & vec4(0xf0f0f0f0u), a);
                        z{{ 2 * k + 1 }} += dots(upper & vec4(0xf0f0f0f0u), a);
                        let lower = transposed(vec4({% for i in range(4) %}v{{ u }}_{{ i }}[{{ k }}]{{ ", " if not loop.last }}{% endfor %}));
                        z{{ 2 * k }} += dots(lower & vec4(0x0f0f0f0fu), with_lower);
                        z{{ 2 * k + 1 }} += dots((lower >> vec4(4u)) & vec4(0x0f0f0f0fu), with_lower);
                    }
{% endfor %}
{% else %}
{% for k in range(4) %}
                    z{{ k }} += dots(transposed(vec4({% for i in range(4) %}w{{ u }}_{{ i }}[{{ k }}]{{ ", " if not loop.last }}{% endfor %})), a);
{% endfor %}
{% endif %}
                }
{% endfor %}
            }
            let scale = scales[b]{{ " * by" if norm }};
{% for k in range(4) %}
{% set d = "d%s"|format(k // 2) %}
            sum{{ k }} += vec4(unpack2x16float({{ d }}[{{ k % 2 * 2 }}]), unpack2x16float({{ d }}[{{ k % 2 * 2 + 1 }}])) * scale * {{ "(vec4<f32>(z%s) + 7.5 * f32(of_uppers))"|format(k) if nested else "vec4<f32>(z%s)"|format(k) }};
{% endfor %}
        }
{% else %}
        let at = split * (SLICE / 4u) + thread;
        var ones = 0u;
        var a = vec4(0.0);
        if (thread < SLICE / 4u && at < K / 4u) {
            a = {{ activations() }};
            ones = live_ones(a * bitcast<vec4<f32>>(m{{ s }}[{{ side.norms }}u + at]), least);
        }
        let own = countOneBits(ones);
        var place = subgroupExclusiveAdd(own);
        let of_subgroup = subgroupAdd(own);
        if (lane == 0u) {
            totals[subgroup] = of_subgroup;
        }
        workgroupBarrier();
        var count = 0u;
        for (var i = 0u; i < subgroup_count; i++) {
            place += select(0u, totals[i], i < subgroup);
            count += totals[i];
        }
        for (var j = 0u; j < 4u; j++) {
            if ((ones & (1u << j)) != 0u) {
                entries[place] = vec2(thread * 4u + j, bitcast<u32>(a[j]));
                place++;
            }
        }
        workgroupBarrier();
        let lines = (tile * K + split * SLICE) * 32u + lane_of_line;
        for (var i = line_group; i < count; i += {{ unroll }}u * GROUPS) {
{% for u in range(unroll) %}
            let e{{ u }} = entries[min(i + {{ u }}u * GROUPS, count - 1u)];
            let w{{ u }} = m{{ s }}[lines + e{{ u }}.x * 32u];
{% endfor %}
{% for u in range(unroll) %}
            if (i + {{ u }}u * GROUPS < count) {
                let v = vec2(bitcast<f32>(e{{ u }}.y));
{% if f32 %}
                sum0 = fma(bitcast<vec4<f32>>(w{{ u }}), v.xxyy, sum0);
{% endif %}
{% for k in range(0 if f32 else 4) %}
{% if bf16 %}
                sum{{ k }} = fma(vec2(bitcast<f32>(w{{ u }}[{{ k }}] << 16u), bitcast<f32>(w{{ u }}[{{ k }}] & 0xffff0000u)), v, sum{{ k }});
{% else %}
                sum{{ k }} = fma(unpack2x16float(w{{ u }}[{{ k }}]), v, sum{{ k }});
{% endif %}
{% endfor %}
            }
{% endfor %}
        }
{% endif %}
{% endmacro %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroup_count: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) subgroup_width: u32,
) {
    let thread = subgroup * subgroup_width + lane;
    let line_group = thread / 32u;
    let lane_of_line = thread % 32u;
    let row = group.y;
    let tile_of_all = group.x{{ " / SPLITS" if on_grid }};
    var side = 0u;
    var tile = tile_of_all;
{% for side in sides[1:] %}
    if (tile_of_all >= {{ side.first }}u) {
        side = {{ loop.index }}u;
        tile = tile_of_all - {{ side.first }}u;
    }
{% endfor %}
    let word = lives[array<u32, {{ sides | length }}>({% for side in sides %}{{ side.lives_at }}u, {% endfor %})[side] + row * {{ lives_step }}u];
    // rows of effort 1 have no bit
    if (word >> 31u == 0u) {
        return;
    }
    let least = word & 0x7fffffffu;
{% if norm %}
    var sum_of_squares = 0.0;
    for (var i = thread; i < K / 4u; i += THREADS) {
        sum_of_squares = add_squares(x[row * (K / 4u) + i], sum_of_squares);
    }
    note_squares(0u, sum_of_squares, subgroup, lane);
    workgroupBarrier();
    let by = factor(0u, subgroup_count);
{% endif %}
{% set each = (outputs + threads - 1) // threads %}
{% if on_grid %}
    let split = group.x % SPLITS;
    {
{% else %}
{% for j in range(each) %}
    var value{{ j }} = 0.0;
{% endfor %}
    for (var split = 0u; split < SPLITS; split++) {
{% endif %}
{% set width = 4 if blocks or f32 else 2 %}
{% set vectors = 1 if f32 else 4 %}
{% for k in range(vectors) %}
        var sum{{ k }} = vec{{ width }}(0.0);
{% endfor %}
{% for side in sides %}
        if (side == {{ loop.index0 }}u) {
{{ slice_of(loop.index0, side) }}
        }
{% endfor %}
{% for k in range(vectors) %}
{% for i in range(width) %}
        sums[line_group * OUT + {{ (k * width + i) * 32 }}u + lane_of_line] = sum{{ k }}[{{ i }}];
{% endfor %}
{% endfor %}
        workgroupBarrier();
{% for j in range(each) %}
        {{ "if (thread < OUT) " if outputs < threads }}{
            let output = {{ j * threads }}u + thread;
            var sum = sums[output];
{% for g in range(1, groups) %}
            sum += sums[{{ g }}u * OUT + output];
{% endfor %}
{% if on_grid %}
            partial[((row * SPLITS + split) * TILES + tile_of_all) * OUT + output] = sum;
{% else %}
            value{{ j }} += sum;
{% endif %}
        }
{% endfor %}
    }
{% if not on_grid %}
{% for j in range(each) %}
    {{ "if (thread < OUT) " if outputs < threads }}{
        partial[(row * TILES + tile_of_all) * OUT + {{ j * threads }}u + thread] = value{{ j }};
    }
{% endfor %}
{% endif %}
}
