{# Partial sums of the products of rows below 1 with matrices in input-major order
   (weights/input_major_layout.rs): an input is multiplied if the bits of its score |a| · ‖W‖ are at least those of the row's
   word for the matrix, where a = x or norm(x), or a gated product whose partial sums are added here. The results
   are made by live_sums.wgsl.
   A workgroup has a tile of outputs and a slice of inputs; with `on_grid` off all slices, one after the other. It
   finds the live inputs of the slice and lists them in their order. Its {{ groups }} groups of 32 threads then take
   blocks of 32 inputs in turn, and their sums are added in the order of groups. So a
   row's bits depend on nothing but the row.
   As a phase of a persistent kernel a workgroup has {{ teams }} teams of threads, each of which does the work of
   a workgroup. It `waits` for the phase before after it has loaded what no phase writes. #}
{# Vectors of four sums of a lane. #}
{% set sums = outputs // 128 %}
{# Sums of groups are added in rounds, so that teams need less workgroup memory. #}
{% set rounds = 2 if teams > 1 and sums > 1 else 1 %}
{% set added = outputs // rounds %}
{# The first elements of a team in workgroup memory. #}
{% set entries_at = "team * %su + "|format(slice) if teams > 1 else "" %}
{% set units_at = "team * CHUNK + " if teams > 1 else "" %}
{% set sums_at = "team * %su + "|format(groups * added) if teams > 1 else "" %}
{% set squares_of = "team" if teams > 1 else "0u" %}
{% macro group_sum(at) %}
{{ "group_sums[(%s) / 4u][(%s) %% 4u]"|format(at, at) if teams > 1 else "group_sums[%s]"|format(at) }}
{%- endmacro %}
const K = {{ k }}u;
const SLICE = {{ slice }}u;
const SPLITS = {{ splits }}u;
// tiles of all matrices
const TILES = {{ tiles }}u;
const OUT = {{ outputs }}u;
const THREADS = {{ threads }}u;
const GROUPS = {{ groups }}u;
// blocks of a slice, and groups that share one
const CHUNK = {{ slice // 32 }}u;
const SHARED = {{ shared }}u;

{% if gated %}
// gate and value: partial sums [row][split] of the product before
var<storage, read> gates: array<vec4<f32>>;
{% with element="vec4<f32>", gating=gated.gating %}
{% include "gating.wgsl" %}
{% endwith %}
{% else %}
var<storage, read> x: array<vec4<f32>>;
{% endif %}
var<storage, read> lives: array<u32>;
// the place of the product among the words of a row
var<storage, read> place: array<u32>;
{% if norm %}
var<storage, read> norm_weight: array<vec4<f32>>;
{% endif %}
var<storage, read> m: array<vec2<u32>>;
var<storage, read_write> partial: array<f32>;

{% if teams > 1 %}
// vectors, whose memory other phases have too
var<workgroup> group_sums: array<vec4<f32>, {{ teams * groups * added // 4 }}>;
{% else %}
var<workgroup> group_sums: array<f32, {{ groups * added }}>;
{% endif %}
var<workgroup> scales: array<f32, {{ teams * slice // 32 }}>;
// live inputs of a block, and live lower halves above 8 bits
var<workgroup> counts: array<u32, {{ teams * slice // 32 }}>;
// in each block its live inputs and their codes, an input in 8 bits above a code; then others with the code 0
var<workgroup> entries: array<u32, {{ teams * slice }}>;
{% if norm %}
var<workgroup> squares: array<f32, {{ teams * subgroups }}>;
{% include "squares.wgsl" %}
{% endif %}

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

// The bits, one for each of four inputs, of those whose scores have at least the bits `least`.
fn live_ones(scores: vec4<f32>, least: u32) -> u32 {
    let is_live = (bitcast<vec4<u32>>(scores) & vec4(0x7fffffffu)) >= vec4(least);
    let ones = select(vec4(0u), vec4(1u, 2u, 4u, 8u), is_live);
    return ones.x | ones.y | ones.z | ones.w;
}

{% if gated %}
// Four elements of the gated product of a row.
fn of_gates(row: u32, at: u32) -> vec4<f32> {
    var gate = vec4(0.0);
    var up = vec4(0.0);
    let first = row * {{ gated.splits * gated.len // 4 }}u + at;
{% for s in range(gated.splits) %}
    gate += gates[first + {{ s * gated.len // 4 }}u];
    up += gates[first + {{ (s * gated.len + gated.up) // 4 }}u];
{% endfor %}
    return gated(gate, up);
}
{% endif %}

{# What a thread loads for the inputs of a slice: weights of the norm and norms of columns, then words of four
   activations. A block's words are those of {{ share }} lanes. #}
{% set own = 8 // share %}
{% macro constant_loads() %}
        let unit = thread / {{ share }}u;
        let within = thread % {{ share }}u * {{ own }}u;
        let from_word = (split * CHUNK + unit) * 8u + within;
        let inside = unit < CHUNK && from_word < K / 4u;
        let first = min(from_word, K / 4u - {{ own }}u);
{% for j in range(own) %}
{% if norm %}
        let weight{{ j }} = norm_weight[first + {{ j }}u];
{% endif %}
        let norms{{ j }} = bitcast<vec4<f32>>(vec4(m[norms_at + 2u * (first + {{ j }}u)], m[norms_at + 2u * (first + {{ j }}u) + 1u]));
{% endfor %}
{% endmacro %}
{% macro loads() %}
{% for j in range(own) %}
        let x{{ j }} = {{ "of_gates(row, first + %su)"|format(j) if gated else "x[row * (K / 4u) + first + %su]"|format(j) }};
{% endfor %}
{% endmacro %}

{# The list of a slice's live inputs. #}
{% macro list() %}
        // magnitudes as integers have the order of floats, with infinities and NaN last
        var most4 = vec4(0u);
        var mask = 0u;
        var lower = 0u;
{% for j in range(own) %}
        let v{{ j }} = x{{ j }}{{ " * weight%s"|format(j) if norm }};
        most4 = max(most4, bitcast<vec4<u32>>(abs(v{{ j }})));
        let scores{{ j }} = v{{ j }}{{ " * by" if norm }} * norms{{ j }};
        mask |= live_ones(scores{{ j }}, least) << (4u * (within + {{ j }}u));
        lower |= live_ones(scores{{ j }} * {{ of_lower }}, least) << (4u * (within + {{ j }}u));
{% endfor %}
        var most = max(max(most4.x, most4.y), max(most4.z, most4.w));
{% for step in [1, 2, 4] if step < share %}
        most = max(most, subgroupShuffleXor(most, {{ step }}u));
        mask |= subgroupShuffleXor(mask, {{ step }}u);
        lower |= subgroupShuffleXor(lower, {{ step }}u);
{% endfor %}
        let magnitude = bitcast<f32>(most);
        let usable = most < 0x7f800000u && magnitude > 1e-35;
        let inverse = select(0.0, 127.0 / magnitude, usable);
        let count = countOneBits(mask);
        let both = lower & mask;
        if (inside) {
{% for j in range(own) %}
            let codes{{ j }} = vec4<i32>(select(vec4(0.0), round(v{{ j }} * inverse), vec4(usable)));
{% for i in range(4) %}
            {
                let input = 4u * (within + {{ j }}u) + {{ i }}u;
                let bit = 1u << input;
                let before = bit - 1u;
                let is_live = (mask & bit) != 0u;
                // those whose lower halves are live come first
                let upper_place = countOneBits(both) + countOneBits(mask & ~both & before);
                let live_place = select(upper_place, countOneBits(both & before), (both & bit) != 0u);
                let listed_at = select(count + countOneBits(~mask & before), live_place, is_live);
                // the others fill up quads, with a line that is read anyway
                let line = select(firstTrailingBit(mask) & 31u, input, is_live);
                entries[{{ entries_at }}unit * 32u + listed_at] = (line << 8u) | select(0u, u32(codes{{ j }}[{{ i }}]) & 255u, is_live);
            }
{% endfor %}
{% endfor %}
            if (within == 0u) {
                counts[{{ units_at }}unit] = count | (countOneBits(both) << 8u);
                // a row with an infinity or a NaN gives NaN
                scales[{{ units_at }}unit] = select(bitcast<f32>(most | 0x7fc00000u), select(0.0, magnitude / 127.0, usable), most < 0x7f800000u){{ " * by" if norm }};
            }
        }
{% if cols_rest %}
        if (!inside && within == 0u && unit < CHUNK) {
            counts[{{ units_at }}unit] = 0u;
        }
{% endif %}
        workgroupBarrier();
{% endmacro %}

{# The sums of the live lines of a slice. #}
{% macro multiply() %}
        for (var b = line_group / SHARED; b < CHUNK; b += GROUPS / SHARED) {
            let of_block = counts[{{ units_at }}b];
            let count = of_block & 255u;
            if (count == 0u) {
                continue;
            }
            let quads = (count + 3u) / 4u;
            let both = of_block >> 8u;
            var of_uppers = 0;
            // each lane has eight scales for each eight of its outputs
            let of_scales = (tile * (K / 32u) + split * CHUNK + b) * {{ 16 * sums }}u + lane_of_line;
{% for k in range(sums // 2) %}
            let d{{ k }} = vec4(m[scales_at + 2u * (of_scales + {{ 32 * k }}u)], m[scales_at + 2u * (of_scales + {{ 32 * k }}u) + 1u]);
{% endfor %}
{% for i in range(sums) %}
            var z{{ i }} = vec4(0i);
{% endfor %}
            let lines = lines_at + (tile * K + split * SLICE + b * 32u) * 32u + lane_of_line;
            let lower_lines = lines + lower_at - lines_at;
            for (var q = line_group % SHARED; q < quads; q += {{ unroll }}u * SHARED) {
{% for u in range(unroll) %}
{% for i in range(4) %}
                var e{{ u }}_{{ i }} = 0u;
                var w{{ u }}_{{ i }}: vec2<u32>;
                var v{{ u }}_{{ i }}: vec2<u32>;
{% endfor %}
                let quad{{ u }} = q + {{ u }}u * SHARED;
                if (quad{{ u }} < quads) {
{% for i in range(4) %}
                    e{{ u }}_{{ i }} = entries[{{ entries_at }}b * 32u + quad{{ u }} * 4u + {{ i }}u];
                    w{{ u }}_{{ i }} = m[lines + (e{{ u }}_{{ i }} >> 8u) * 32u];
{% endfor %}
{% for i in range(4) %}
                    if (quad{{ u }} * 4u + {{ i }}u < both) {
                        v{{ u }}_{{ i }} = m[lower_lines + (e{{ u }}_{{ i }} >> 8u) * 32u];
                    }
{% endfor %}
                }
{% endfor %}
{% for u in range(unroll) %}
                if (quad{{ u }} < quads) {
                    let a = (e{{ u }}_0 & 255u) | ((e{{ u }}_1 & 255u) << 8u) | ((e{{ u }}_2 & 255u) << 16u) | (e{{ u }}_3 << 24u);
                    let left = min(max(both, quad{{ u }} * 4u) - quad{{ u }} * 4u, 4u);
                    // the lower halves of the others count as their mean
                    of_uppers += dot4I8Packed(a & ~select((1u << (8u * left)) - 1u, 0xffffffffu, left == 4u), 0x01010101u);
{% for k in range(2) %}
                    {
                        let upper = transposed(vec4({% for i in range(4) %}w{{ u }}_{{ i }}[{{ k }}]{{ ", " if not loop.last }}{% endfor %}));
                        var lower = vec4(0u);
                        if (left > 0u) {
                            lower = transposed(vec4({% for i in range(4) %}v{{ u }}_{{ i }}[{{ k }}]{{ ", " if not loop.last }}{% endfor %}));
                        }
                        z{{ 2 * k }} += dots(((upper << vec4(4u)) & vec4(0xf0f0f0f0u)) | (lower & vec4(0x0f0f0f0fu)), a);
                        z{{ 2 * k + 1 }} += dots((upper & vec4(0xf0f0f0f0u)) | ((lower >> vec4(4u)) & vec4(0x0f0f0f0fu)), a);
                    }
{% endfor %}
                }
{% endfor %}
            }
            let scale = scales[{{ units_at }}b];
{% for k in range(sums) %}
{% set d = "d%s"|format(k // 2) %}
            sum{{ k }} += vec4(unpack2x16float({{ d }}[{{ k % 2 * 2 }}]), unpack2x16float({{ d }}[{{ k % 2 * 2 + 1 }}])) * scale * (vec4<f32>(z{{ k }}) + 7.5 * f32(of_uppers));
{% endfor %}
        }
{% endmacro %}

@compute @workgroup_size({{ teams * threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup_of_all: u32,
    @builtin(num_subgroups) subgroups_of_all: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) subgroup_width: u32,
) {
{% if teams > 1 %}
    let subgroup_count = subgroups_of_all / {{ teams }}u;
    let team = (subgroup_of_all * subgroup_width + lane) / THREADS;
    let subgroup = subgroup_of_all - team * subgroup_count;
    // the last team of all may be left over
    let is_over = group.x * {{ teams }}u + team >= TILES * SPLITS;
    let item = min(group.x * {{ teams }}u + team, TILES * SPLITS - 1u);
{% else %}
    let subgroup_count = subgroups_of_all;
    let subgroup = subgroup_of_all;
    let item = group.x;
{% endif %}
    let thread = subgroup * subgroup_width + lane;
    let line_group = thread / 32u;
    let lane_of_line = thread % 32u;
    let row = group.y;
    let tile_of_all = item{{ " / SPLITS" if on_grid }};
    // the places of the tile's matrix
    var tile = tile_of_all;
    var lives_at = {{ sides[0].lives_at }}u;
    var lines_at = {{ sides[0].lines }}u;
    var norms_at = {{ sides[0].norms }}u;
    var scales_at = {{ sides[0].scales }}u;
    var lower_at = {{ sides[0].lower }}u;
{% for side in sides[1:] %}
    if (tile_of_all >= {{ side.first }}u) {
        tile = tile_of_all - {{ side.first }}u;
        lives_at = {{ side.lives_at }}u;
        lines_at = {{ side.lines }}u;
        norms_at = {{ side.norms }}u;
        scales_at = {{ side.scales }}u;
        lower_at = {{ side.lower }}u;
    }
{% endfor %}
    let word = lives[place[0] + lives_at + row * {{ lives_step }}u];
{% if mixed %}
    // full rows have no bit
    if (word >> 31u == 0u) {
        return;
    }
{% endif %}
    let least = word & 0x7fffffffu;
{% if on_grid %}
    let split = item % SPLITS;
{{ constant_loads() }}
{% if waits %}
    wait_for_inputs(subgroup_of_all * subgroup_width + lane);
{% endif %}
{{ loads() }}
{% endif %}
{% if norm %}
    var sum_of_squares = 0.0;
    for (var i = thread; i < K / 4u; i += THREADS) {
        sum_of_squares = add_squares(x[row * (K / 4u) + i], sum_of_squares);
    }
    note_squares({{ squares_of }}, sum_of_squares, subgroup, lane);
    workgroupBarrier();
    let by = factor({{ squares_of }}, subgroup_count);
{% endif %}
{% set each = (added + threads - 1) // threads %}
{% if on_grid %}
    {
{% else %}
{% for j in range(each) %}
    var value{{ j }} = 0.0;
{% endfor %}
    for (var split = 0u; split < SPLITS; split++) {
{{ constant_loads() }}
{{ loads() }}
{% endif %}
{{ list() }}
{% for k in range(sums) %}
        var sum{{ k }} = vec4(0.0);
{% endfor %}
{{ multiply() }}
{% for round in range(rounds) %}
{% if round > 0 %}
        workgroupBarrier();
{% endif %}
{% for k in range(sums // rounds) %}
{% for i in range(4) %}
        {{ group_sum("%sline_group * %su + %su + lane_of_line"|format(sums_at, added, (k * 4 + i) * 32)) }} = sum{{ round * (sums // rounds) + k }}[{{ i }}];
{% endfor %}
{% endfor %}
        workgroupBarrier();
{% for j in range(each) %}
        {{ "if (thread < %su) "|format(added) if added < threads }}{
            let output = {{ j * threads }}u + thread;
            var sum = {{ group_sum(sums_at ~ "output") }};
{% for g in range(1, groups) %}
            sum += {{ group_sum("%s%su + output"|format(sums_at, g * added)) }};
{% endfor %}
{% if on_grid %}
            {{ "if (!is_over) " if teams > 1 }}{
                partial[((row * SPLITS + split) * TILES + tile_of_all) * OUT + {{ round * added }}u + output] = sum;
            }
{% else %}
            value{{ j }} += sum;
{% endif %}
        }
{% endfor %}
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
