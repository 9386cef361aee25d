{# A product of rows with matrices in input-major order (weights/lines.rs), of which only the lines of a
   row's live inputs are read:
       y[r][n] = Σ_k W[n][k] · a[r][k] (+ bias[n])       a = x, or norm(x)
       y[r][n] += …                                      with add
       y[r][n] = gated(gate, up)                         with glu: the two sides
   A row with all inputs live has the bits of matvec.wgsl: an output has the partial sums of its lanes,
   called chains here, and they are added in the same tree. A *team* of threads computes a chain: its
   `WIDTH` threads have a word of each line, and `GROUPS` such groups divide the lines of a block,
   whose products are integers.
   A workgroup computes `OUT` outputs of one side, of one row, with the chains of one K split; the others
   on the grid have theirs. Two workgroups with halves of a sum exchange them: the second one to come
   to a slot finds the value of the first, and adds. Both orders give the same sum. #}
{% set paired = blocks %}
const K = {{ k }}u;
const UNITS = {{ units }}u;
const CHUNK = UNITS;
const THREADS = {{ threads }}u;
const CHAINS = {{ chains }}u;
const SPLITS = {{ splits }}u;
const OWN = {{ own_chains }}u;
const STEPS = {{ steps }}u;
// units of this split
const LOCAL = {{ steps * own_chains }}u;
const WIDTH = {{ width }}u;
const GROUPS = {{ groups }}u;
const TEAM = {{ width * groups }}u;
const TEAMS = {{ threads // (width * groups) }}u;
// words of a line, outputs of a slab and of a workgroup, and of a thread at the end of a block
const LINE = {{ line }}u;
const SLAB = {{ line * per_word }}u;
const OUT = {{ width * per_word }}u;
const KEEP = {{ keep }}u;
const PARTS = {{ line // width }}u;
const EMPTY = 0xffffffffu;

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> lives: array<u32>;
{% set next = namespace(b=2) %}
{% if exchanges %}
@group(0) @binding({{ next.b }}) var<storage, read_write> slots: array<atomic<u32>>;
{% set next.b = next.b + 1 %}
{% endif %}
{% if norm %}
@group(0) @binding({{ next.b }}) var<storage, read> norm_weight: array<vec4<f32>>;
{% set next.b = next.b + 1 %}
{% endif %}
{% if apart %}
@group(0) @binding({{ next.b }}) var<storage, read_write> kept: array<f32>;
{% set next.b = next.b + 1 %}
{% endif %}
{% for side in sides %}
{% set s = loop.index0 %}
@group(0) @binding({{ next.b }}) var<storage, read> m{{ s }}: array<u32>;
@group(0) @binding({{ next.b + 1 }}) var<storage, read> norms{{ s }}: array<vec4<f32>>;
{% set next.b = next.b + 2 %}
{% if not (glu and s == 1) %}
@group(0) @binding({{ next.b }}) var<storage, read_write> y{{ s }}: array<f32>;
{% set next.b = next.b + 1 %}
{% endif %}
{% if side.bias %}
@group(0) @binding({{ next.b }}) var<storage, read> bias{{ s }}: array<f32>;
{% set next.b = next.b + 1 %}
{% endif %}
{% endfor %}

{% if blocks %}
// codes and scales of the split's units, before the choice
var<workgroup> codes: array<u32, {{ steps * own_chains * 8 }}>;
var<workgroup> scales: array<f32, {{ steps * own_chains }}>;
// sums of the live codes of each unit, or of its halves
var<workgroup> sums: array<atomic<i32>, {{ steps * own_chains * halves }}>;
// the live inputs of each unit in pairs, of which two words are one by or: codes in bytes 0 and 1,
// inputs in bytes 2 and 3
var<workgroup> entries: array<u32, {{ steps * own_chains * 32 }}>;
{% else %}
// the live inputs of each unit, and their activations
var<workgroup> entries: array<u32, {{ steps * own_chains * unit }}>;
var<workgroup> floats: array<f32, {{ steps * own_chains * unit }}>;
{% endif %}
// a bit for each live input of a unit
var<workgroup> masks: array<atomic<u32>, {{ steps * own_chains }}>;
{% if norm %}
var<workgroup> squares: array<f32, {{ subgroups }}>;
{% include "squares.wgsl" %}
{% endif %}
{% if glu %}
{% include "gating.wgsl" %}
{% endif %}
{# The bins of the choice, and then the sums of the chains. #}
{% set word_count = [2048, own_chains * width * per_word] | max %}
{% include "select_inputs.wgsl" %}

// the first chain of the split
var<private> first_chain: u32;

fn is_local(unit: u32) -> bool {
    return unit % CHAINS - first_chain < OWN;
}

fn local_of(unit: u32) -> u32 {
    return unit / CHAINS * OWN + unit % CHAINS - first_chain;
}

fn norms_of(side: u32, at: u32) -> vec4<f32> {
{% for s in range(1, sides | length) %}
    if (side == {{ s }}u) {
        return norms{{ s }}[at];
    }
{% endfor %}
    return norms0[at];
}

{% if blocks %}
fn keep_code(r: u32, unit: u32, word: u32, code: u32) {
    if (is_local(unit)) {
        codes[local_of(unit) * 8u + word] = code;
    }
}

fn keep_scale(r: u32, unit: u32, value: vec2<f32>) {
    if (is_local(unit)) {
        scales[local_of(unit)] = value.x;
    }
}

{% include "quantize.wgsl" %}

// The float of an integer below 2²² in magnitude, as in block_products.wgsl.
fn exact(i: i32) -> f32 {
    return bitcast<f32>(0x4b400000i + i) - 12582912.0;
}

fn half_float(word: u32, at: u32) -> f32 {
    return unpack2x16float(word >> (at * 16u)).x;
}
{% endif %}

{% include "live_inputs.wgsl" %}

{# Names of what a thread has of a block: words of both lines of its pairs, upper bits, fields. #}
{% set pairs = 16 // halves // groups %}
{% set batch = [4, pairs] | min %}
{% macro declare() %}
{% for h in range(halves) %}
    var pairs{{ h }} = 0u;
{% for p in range(pairs) %}
    var wa{{ h }}_{{ p }}: u32;
    var wb{{ h }}_{{ p }}: u32;
{% if upper_bits %}
    var ua{{ h }}_{{ p }}: u32;
    var ub{{ h }}_{{ p }}: u32;
{% endif %}
{% endfor %}
{% endfor %}
{% for f in range(d_fields) %}
{% for i in range(keep // 2) %}
    var d{{ f }}_{{ i }}: u32;
{% endfor %}
{% endfor %}
{% if sub_bytes %}
{% for f in range(2) %}
{% for i in range(keep // 4) %}
    var f{{ f }}_{{ i }}: u32;
{% endfor %}
{% endfor %}
{% endif %}
{% endmacro %}
{# Loads block `step` of a chain. #}
{% macro fetch_block(s, step) %}
        {
            let unit = min(({{ step }}) * CHAINS + first_chain + chain, UNITS - 1u);
            let local = ({{ step }}) * OWN + chain;
            let mask = atomicLoad(&masks[local]);
            let lines = (slab * K + unit * 32u) * LINE + part * WIDTH + word;
{% if upper_bits %}
            let uppers = {{ sections[s].high }}u + (slab * K + unit * 32u) * {{ line * upper_bits // 4 }}u + (part * WIDTH + word) / {{ 4 // upper_bits }}u;
{% endif %}
{% for f in range(d_fields) %}
{% for i in range(keep // 2) %}
            d{{ f }}_{{ i }} = m{{ s }}[{{ sections[s].d }}u + (((slab * {{ units // d_units }}u + unit / {{ d_units }}u) * {{ d_fields }}u + {{ f }}u) * SLAB + own) / 2u + {{ i }}u];
{% endfor %}
{% endfor %}
{% if sub_bytes %}
{% for f in range(2) %}
{% for i in range(keep // 4) %}
            f{{ f }}_{{ i }} = m{{ s }}[{{ sections[s].sub }}u + (((slab * UNITS + unit) * 2u + {{ f }}u) * SLAB + own) / 4u + {{ i }}u];
{% endfor %}
{% endfor %}
{% endif %}
{% for h in range(halves) %}
            pairs{{ h }} = (countOneBits(mask{{ " & %su"|format(65535 * 65536 ** h) if halves == 2 }}) + 1u) / 2u;
{% for first in range(0, pairs, batch) %}
            if (pairs{{ h }} > {{ first * groups }}u) {
{% for p in range(first, first + batch) %}
                let e{{ p }} = local * 32u + {{ h * 16 }}u + 2u * min({{ p * groups }}u + line_group, pairs{{ h }} - 1u);
                let i{{ p }} = (entries[e{{ p }}] | entries[e{{ p }} + 1u]) >> 16u;
                wa{{ h }}_{{ p }} = m{{ s }}[lines + (i{{ p }} & 31u) * LINE];
                wb{{ h }}_{{ p }} = m{{ s }}[lines + (i{{ p }} >> 8u) * LINE];
{% if upper_bits %}
                ua{{ h }}_{{ p }} = m{{ s }}[uppers + (i{{ p }} & 31u) * {{ line * upper_bits // 4 }}u];
                ub{{ h }}_{{ p }} = m{{ s }}[uppers + (i{{ p }} >> 8u) * {{ line * upper_bits // 4 }}u];
{% endif %}
{% endfor %}
            }
{% endfor %}
{% endfor %}
        }
{% endmacro %}
{# The outputs' codes of a word, four in each of `parts` words. #}
{% macro unpacked(to, name, upper) %}
{% if per_word == 4 %}
                let {{ to }}_0 = {{ name }};
{% else %}
                var {{ to }}_0 = {{ name }} & 0x0f0f0f0fu;
                var {{ to }}_1 = ({{ name }} >> 4u) & 0x0f0f0f0fu;
{% if upper_bits == 1 %}
                let {{ to }}_u = {{ upper }} >> upper_shift;
                {{ to }}_0 |= ((({{ to }}_u & 15u) * 0x00204081u) & 0x01010101u) << 4u;
                {{ to }}_1 |= (((({{ to }}_u >> 4u) & 15u) * 0x00204081u) & 0x01010101u) << 4u;
{% elif upper_bits == 2 %}
                // field b of four at bits 8b + 4
                let {{ to }}_u = {{ upper }} >> upper_shift;
                {{ to }}_0 |= (({{ to }}_u & 3u) << 4u) | (({{ to }}_u & 12u) << 10u) | (({{ to }}_u & 48u) << 16u) | (({{ to }}_u & 192u) << 22u);
                {{ to }}_1 |= (({{ to }}_u & 0x300u) >> 4u) | (({{ to }}_u & 0xc00u) << 2u) | (({{ to }}_u & 0x3000u) << 8u) | (({{ to }}_u & 0xc000u) << 14u);
{% endif %}
{% endif %}
{% endmacro %}

{# The chains of this team, of side `s`. #}
{% macro chains_of(s) %}
    for (var chain = team; chain < OWN; chain += TEAMS) {
{% for j in range(keep) %}
        var sum{{ j }} = 0.0;
{% endfor %}
{% if blocks %}
{{ fetch_block(s, "0u") }}
        for (var step = 0u; step < STEPS; step++) {
            let local = step * OWN + chain;
{% for h in range(halves) %}
            let now_pairs{{ h }} = pairs{{ h }};
{% for p in range(pairs) %}
            let now_a{{ h }}_{{ p }} = wa{{ h }}_{{ p }};
            let now_b{{ h }}_{{ p }} = wb{{ h }}_{{ p }};
{% if upper_bits %}
            let now_ua{{ h }}_{{ p }} = ua{{ h }}_{{ p }};
            let now_ub{{ h }}_{{ p }} = ub{{ h }}_{{ p }};
{% endif %}
{% endfor %}
{% endfor %}
{% for f in range(d_fields) %}
{% for i in range(keep // 2) %}
            let now_d{{ f }}_{{ i }} = d{{ f }}_{{ i }};
{% endfor %}
{% endfor %}
{% if sub_bytes %}
{% for f in range(2) %}
{% for i in range(keep // 4) %}
            let now_f{{ f }}_{{ i }} = f{{ f }}_{{ i }};
{% endfor %}
{% endfor %}
{% endif %}
            if (step + 1u < STEPS) {
{{ fetch_block(s, "step + 1u") }}
            }
{% for h in range(halves) %}
{% for j in range(per_word) %}
            var all{{ h }}_{{ j }} = 0i;
{% endfor %}
{% for first in range(0, pairs, batch) %}
            if (now_pairs{{ h }} > {{ first * groups }}u) {
{% for p in range(first, first + batch) %}
                {
                let place = {{ p * groups }}u + line_group;
                let entry = local * 32u + {{ h * 16 }}u + 2u * min(place, now_pairs{{ h }} - 1u);
                let both = select(0u, (entries[entry] | entries[entry + 1u]) & 0xffffu, place < now_pairs{{ h }});
                let upper = both << 16u;
{{ unpacked("a", "now_a%s_%s"|format(h, p), "now_ua%s_%s"|format(h, p)) }}
{{ unpacked("b", "now_b%s_%s"|format(h, p), "now_ub%s_%s"|format(h, p)) }}
{% for q in range(per_word // 4) %}
                let even{{ q }} = (a_{{ q }} & 0x00ff00ffu) | ((b_{{ q }} & 0x00ff00ffu) << 8u);
                let odd{{ q }} = ((a_{{ q }} >> 8u) & 0x00ff00ffu) | (b_{{ q }} & 0xff00ff00u);
                all{{ h }}_{{ 4 * q }} += dot4I8Packed(even{{ q }}, both);
                all{{ h }}_{{ 4 * q + 1 }} += dot4I8Packed(odd{{ q }}, both);
                all{{ h }}_{{ 4 * q + 2 }} += dot4I8Packed(even{{ q }}, upper);
                all{{ h }}_{{ 4 * q + 3 }} += dot4I8Packed(odd{{ q }}, upper);
{% endfor %}
                }
{% endfor %}
            }
{% endfor %}
            let live_sum{{ h }} = atomicLoad(&sums[local * {{ halves }}u + {{ h }}u]);
{% for j in range(keep) %}
{% if groups == 2 %}
            let of{{ h }}_{{ j }} = select(all{{ h }}_{{ j }}, all{{ h }}_{{ j + keep }}, line_group == 1u)
                + subgroupShuffleXor(select(all{{ h }}_{{ j + keep }}, all{{ h }}_{{ j }}, line_group == 1u), WIDTH){{ " - %s * live_sum%s"|format(zero, h) if zero }};
{% else %}
            let of{{ h }}_{{ j }} = all{{ h }}_{{ j }}{{ " - %s * live_sum%s"|format(zero, h) if zero }};
{% endif %}
{% endfor %}
{% endfor %}
            // a step after the last unit has no live inputs, and its scale is that of no unit
            let scale = select(0.0, scales[local], now_pairs0{{ " + now_pairs1" if halves == 2 }} > 0u);
{% for j in range(keep) %}
            {
                let d = half_float(now_d0_{{ j // 2 }}, {{ j % 2 }}u);
{% if format == "Q6_K" %}
                let first = d * f32(unpack4xI8(now_f0_{{ j // 4 }}).{{ ["x", "y", "z", "w"][j % 4] }});
                let second = d * f32(unpack4xI8(now_f1_{{ j // 4 }}).{{ ["x", "y", "z", "w"][j % 4] }});
                let product = fma(first, exact(of0_{{ j }}), second * exact(of1_{{ j }}));
{% elif format in ["Q4_K", "Q5_K"] %}
                let by = d * f32((now_f0_{{ j // 4 }} >> {{ j % 4 * 8 }}u) & 255u);
                let least = -half_float(now_d1_{{ j // 2 }}, {{ j % 2 }}u) * f32((now_f1_{{ j // 4 }} >> {{ j % 4 * 8 }}u) & 255u);
                let product = fma(least, exact(live_sum0), by * exact(of0_{{ j }}));
{% elif format == "Q4_1" %}
                let product = fma(half_float(now_d1_{{ j // 2 }}, {{ j % 2 }}u), exact(live_sum0), d * exact(of0_{{ j }}));
{% else %}
                let product = d * exact(of0_{{ j }});
{% endif %}
                sum{{ j }} = fma(scale, product, sum{{ j }});
            }
{% endfor %}
        }
{% else %}
        for (var step = 0u; step < STEPS; step++) {
            let local = step * OWN + chain;
            let count = countOneBits(atomicLoad(&masks[local]));
{% for first in range(0, unit, 4) %}
            if (count > {{ first }}u) {
{% for i in range(first, first + 4) %}
                let place{{ i }} = local * {{ unit }}u + min({{ i }}u, count - 1u);
                let w{{ i }} = m{{ s }}[(slab * K + entries[place{{ i }}]) * LINE + part * WIDTH + word];
{% endfor %}
{% for i in range(first, first + 4) %}
                if ({{ i }}u < count) {
                    let a = floats[place{{ i }}];
{% if format == "F16" %}
                    let w = unpack2x16float(w{{ i }});
                    sum0 = fma(w.x, a, sum0);
                    sum1 = fma(w.y, a, sum1);
{% elif format == "BF16" %}
                    sum0 = fma(bitcast<f32>(w{{ i }} << 16u), a, sum0);
                    sum1 = fma(bitcast<f32>(w{{ i }} & 0xffff0000u), a, sum1);
{% else %}
                    sum0 = fma(bitcast<f32>(w{{ i }}), a, sum0);
{% endif %}
                }
{% endfor %}
            }
{% endfor %}
        }
{% endif %}
{% for j in range(keep) %}
        atomicStore(&words[chain * OUT + word * {{ per_word }}u + line_group * KEEP + {{ j }}u], bitcast<u32>(sum{{ j }}));
{% endfor %}
    }
{% endmacro %}

{# The sum of values v0 … by pairs of neighbours, as lanes are added in matvec.wgsl. #}
{% macro tree(name, count) %}
{% set powers = [1, 2, 4, 8, 16, 32, 64] %}
{% for power in powers if power < count %}
{% for i in range(count // (2 * power)) %}
        let {{ name }}{{ 2 * power }}_{{ i }} = {{ name }}{{ power }}_{{ 2 * i }} + {{ name }}{{ power }}_{{ 2 * i + 1 }};
{% endfor %}
{% endfor %}
{% endmacro %}

{% if exchanges %}
// The sum of the value and that of the partner, if it has been at the slot before.
fn exchanged(slot: u32, value: f32) -> u32 {
    let bits = bitcast<u32>(value);
    let old = atomicExchange(&slots[slot], select(bits, 0x7fc00000u, bits == EMPTY));
    if (old != EMPTY) {
        atomicStore(&slots[slot], EMPTY);
    }
    return old;
}
{% endif %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroup_count: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) subgroup_width: u32,
) {
    let thread = subgroup * subgroup_width + lane;
    let row = group.y;
    // the number of live inputs, and a bit of rows whose effort is below 1
    let lives_of = lives[{{ lives_at }}u + row * {{ lives_step }}u];
{% if only_below %}
    if (lives_of >> 31u == 0u) {
        return;
    }
{% endif %}
    let live = lives_of & 0x7fffffffu;
    var side = 0u;
    var tile = group.x;
{% for s in range(1, sides | length) %}
    if (group.x >= {{ sides[s].first }}u) {
        side = {{ s }}u;
        tile = group.x - {{ sides[s].first }}u;
    }
{% endfor %}
{% if on_grid %}
    let split = tile % SPLITS;
    tile /= SPLITS;
{% endif %}
    let slab = tile / PARTS;
    let part = tile % PARTS;
    let team = thread / TEAM;
    let line_group = thread % TEAM / WIDTH;
    let word = thread % WIDTH;
    let own = part * OUT + word * {{ per_word }}u + line_group * KEEP;
{% if upper_bits %}
    let upper_shift = (part * WIDTH + word) % {{ 4 // upper_bits }}u * {{ 8 * upper_bits }}u;
{% endif %}
    let here = min(thread, OUT - 1u);
    let chosen = choose(side, row, live, thread, subgroup, lane);
{% if blocks %}
{{ declare() }}
{% endif %}
{% if not on_grid %}
{% for i in range(splits) %}
    var v{{ own_chains }}_{{ i }}: f32;
{% endfor %}
    for (var split = 0u; split < SPLITS; split++) {
{% endif %}
    first_chain = split * OWN;
    for (var i = thread; i < LOCAL; i += THREADS) {
        atomicStore(&masks[i], 0u);
{% for h in range(halves if blocks else 0) %}
        atomicStore(&sums[i * {{ halves }}u + {{ h }}u], 0i);
{% endfor %}
    }
{% if blocks %}
{% if norm %}
    note_squares(0u, prepare(0u, row, 0u, thread), subgroup, lane);
{% else %}
    _ = prepare(0u, row, 0u, thread);
{% endif %}
{% elif norm %}
    var sum_of_squares = 0.0;
    for (var i = thread; i < K / 4u; i += THREADS) {
        sum_of_squares = add_squares(x[row * (K / 4u) + i], sum_of_squares);
    }
    note_squares(0u, sum_of_squares, subgroup, lane);
{% endif %}
    workgroupBarrier();
{% for n in range(turns) %}
    if (thread + {{ n * threads }}u < K / 4u) {
        mark(chosen.ones{{ n }}, thread + {{ n * threads }}u);
    }
{% endfor %}
    workgroupBarrier();
{% for n in range(turns) %}
    if (thread + {{ n * threads }}u < K / 4u) {
        enter(row, chosen.ones{{ n }}, thread + {{ n * threads }}u);
    }
{% endfor %}
    workgroupBarrier();
{% for side in sides %}
{% if sides | length > 1 %}
    if (side == {{ loop.index0 }}u) {
{% endif %}
{{ chains_of(loop.index0) }}
{% if sides | length > 1 %}
    }
{% endif %}
{% endfor %}
    workgroupBarrier();
    var value: f32;
    {
{% for i in range(own_chains) %}
        let t1_{{ i }} = bitcast<f32>(atomicLoad(&words[{{ i }}u * OUT + here]));
{% endfor %}
{{ tree("t", own_chains) }}
        value = t{{ own_chains }}_0;
    }
{% if not on_grid %}
{% for i in range(splits) %}
        if (split == {{ i }}u) {
            v{{ own_chains }}_{{ i }} = value;
        }
{% endfor %}
        // what the next split writes has been read
        workgroupBarrier();
    }
    var value: f32;
    {
{% for i in range(splits) %}
        let s1_{{ i }} = v{{ own_chains }}_{{ i }};
{% endfor %}
{{ tree("s", splits) }}
        value = s{{ splits }}_0;
    }
{% endif %}
    let n = slab * SLAB + part * OUT + here;
    let rows = array<u32, {{ sides | length }}>({% for side in sides %}{{ side.rows }}u, {% endfor %})[side];
    if (thread >= OUT || n >= rows) {
        return;
    }
{% if on_grid and splits > 1 %}
    // slots of this side: those of the tree's levels one after the other
    var slot = row * {{ slots }}u + array<u32, {{ sides | length }}>({% for side in sides %}{{ side.slots }}u, {% endfor %})[side] + n;
    var pair = split;
    for (var level = SPLITS / 2u; level > 0u; level /= 2u) {
        pair /= 2u;
        let other = exchanged(slot + pair * rows, value);
        if (other == EMPTY) {
            return;
        }
        value += bitcast<f32>(other);
        slot += level * rows;
    }
{% endif %}
{% if norm %}
    let by = factor(0u, {{ "subgroup_count" }});
{% endif %}
{% for side in sides %}
    {{ "else " if not loop.first }}if (side == {{ loop.index0 }}u) {
{% set bias_of = "bias%s[n]"|format(loop.index0) %}
{% if side.bias and norm %}
        value = fma(value, by, {{ bias_of }});
{% elif norm %}
        value = value * by;
{% elif side.bias %}
        value = value + {{ bias_of }};
{% endif %}
{% if not glu %}
        let at = row * {{ side.rows }}u + n;
        {{ "kept" if apart else "y%s"|format(loop.index0) }}[at] = {{ "y%s[at] + "|format(loop.index0) if add }}value;
{% endif %}
    }
{% endfor %}
{% if glu %}
    let other = exchanged(row * {{ slots }}u + {{ glu_slots }}u + n, value);
    if (other == EMPTY) {
        return;
    }
    let gate = select(value, bitcast<f32>(other), side == 1u);
    let up = select(bitcast<f32>(other), value, side == 1u);
    y0[row * rows + n] = gated(gate, up);
{% endif %}
}
