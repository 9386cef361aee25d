{# A product of rows with matrices in input-major order (weights/lines.rs):
       y[r][n] = Σ_k W[n][k] · a[r][k] (+ bias[n])       a = x, or norm(x)
       y[r][n] += …                                      with add
       y[r][n] = gated(gate, up)                         with glu: the two sides
   of all inputs, or with `chosen` of those in the lists of choose_inputs.wgsl, which also have the
   activations; only their lines are read. All inputs have the bits of matvec.wgsl either way: an
   output has the partial sums of its lanes, called chains here, and they are added in the same tree.
   A workgroup computes `OUT` outputs of a side, or of gate and up, of one row. A *team* of threads
   computes a chain: its `WIDTH` threads have a word of each line, and `GROUPS` such groups divide the
   lines of a block, whose products are integers. Four lines are multiplied together (a quad), by the
   transposition of their bytes: the weights of an input stand in a word rotated by the input, so that
   every output has its four weights at four places of a word. #}
const K = {{ k }}u;
const UNITS = {{ units }}u;
const CHUNK = UNITS;
const THREADS = {{ threads }}u;
const CHAINS = {{ chains }}u;
const STEPS = {{ steps }}u;
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

{% if chosen %}
var<storage, read> lists: array<vec4<u32>>;
{% else %}
var<storage, read> x: array<vec4<f32>>;
{% endif %}
{% if only_below %}
var<storage, read> lives: array<u32>;
{% endif %}
{% if norm and not chosen %}
var<storage, read> norm_weight: array<vec4<f32>>;
{% endif %}
{% if apart %}
var<storage, read_write> kept: array<f32>;
{% endif %}
{% for side in sides %}
{% set s = loop.index0 %}
var<storage, read> m{{ s }}: array<u32>;
{% if not (glu and s == 1) %}
var<storage, read_write> y{{ s }}: array<f32>;
{% endif %}
{% if side.bias %}
var<storage, read> bias{{ s }}: array<f32>;
{% endif %}
{% endfor %}

// the sums of the chains
var<workgroup> chain_sums: array<f32, {{ chains * width * per_word }}>;
{% if blocks and not chosen %}
// codes, scales and sums of the codes of both halves of each unit
var<workgroup> codes: array<u32, {{ units * 8 }}>;
var<workgroup> scales: array<vec2<f32>, {{ units }}>;
{% endif %}
{% if norm and not chosen %}
var<workgroup> squares: array<f32, {{ subgroups }}>;
{% include "squares.wgsl" %}
{% endif %}
{% if glu %}
{% include "gating.wgsl" %}
{% endif %}

{% if blocks and not chosen %}
fn keep_code(r: u32, unit: u32, word: u32, code: u32) {
    codes[unit * 8u + word] = code;
}

fn keep_scale(r: u32, unit: u32, value: vec2<f32>) {
    scales[unit] = value;
}

{% include "quantize.wgsl" %}
{% endif %}

{% if blocks %}
// The float of an integer below 2²² in magnitude, as in block_products.wgsl.
fn exact(i: i32) -> f32 {
    return bitcast<f32>(0x4b400000i + i) - 12582912.0;
}

fn half_float(word: u32, at: u32) -> f32 {
    return unpack2x16float(word >> (at * 16u)).x;
}

fn rotated(word: u32, by: u32) -> u32 {
    return (word << by) | (word >> ((32u - by) & 31u));
}

// The transposition of the bytes of four words, of which word i is rotated by i bytes. Word j has
// byte j of each, rotated by j bytes.
fn transposed(w: vec4<u32>) -> vec4<u32> {
    let even = 0x00ff00ffu;
    let low = 0x0000ffffu;
    let inner = 0x00ffff00u;
    let p = (w.x & even) | (w.y & ~even);
    let q = (w.x & ~even) | (w.y & even);
    let r = (w.z & even) | (w.w & ~even);
    let s = (w.z & ~even) | (w.w & even);
    return vec4((p & low) | (r & ~low), (q & inner) | (s & ~inner), (p & ~low) | (r & low), (q & ~inner) | (s & inner));
}
{% if upper_bits %}

// The upper bits of the codes of a word, four at a time, in the places of a code of a byte. The upper
// halves of nested codes make them signed bytes; a lower half that is not live counts as its mean, 7.5.
fn uppers(bits: u32) -> vec2<u32> {
{% if nested %}
    return (vec2(bits, bits >> 4u) & vec2(0x0f0f0f0fu)) << vec2(4u);
{% elif upper_bits == 1 %}
    return (((vec2(bits, bits >> 4u) & vec2(15u)) * 0x00204081u) & vec2(0x01010101u)) << vec2(4u);
{% else %}
    let four = vec2(bits, bits >> 8u) & vec2(255u);
    let two = (four | (four << vec2(12u))) & vec2(0x000f000fu);
    return ((two | (two << vec2(6u))) & vec2(0x03030303u)) << vec2(4u);
{% endif %}
}
{% endif %}
{% endif %}

{# A thread has `loads` pairs of quads of a block: pair t is that of index t · GROUPS + line_group of
   four, two of each half. The second quad of a pair is that of index `apart_by` after the first, so that
   groups have equally many. #}
{% set apart_by = 4 // halves %}
{% set loads = 4 // groups %}
{% set parts = 2 if per_word == 8 else 1 %}
{% macro declare() %}
{% for t in range(loads) %}
{% for b in range(2) %}
    var w{{ t }}_{{ b }}: vec4<u32>;
{% if upper_bits %}
    var u{{ t }}_{{ b }}: vec4<u32>;
{% endif %}
{% endfor %}
{% if chosen %}
    // the quads of the block whose lines are loaded, and of the one after
    var quads{{ t }}: vec4<u32>;
    var next_quads{{ t }}: vec4<u32>;
{% endif %}
{% endfor %}
{% if chosen %}
    var head: vec4<u32>;
    var next_head: vec4<u32>;
{% endif %}
{% for f in range(d_fields) %}
{% for i in range(keep // 2) %}
    var d{{ f }}_{{ i }}: u32;
{% endfor %}
{% endfor %}
{% if sub_bytes %}
{% for f in range(2) %}
{% for i in range((keep + 3) // 4) %}
    var f{{ f }}_{{ i }}: u32;
{% endfor %}
{% endfor %}
{% endif %}
{% endmacro %}
{# Quads of half h of a head. #}
{% macro quads_of(head, h) %}((({{ "(" if halves == 2 }}{{ head }}.x{{ " >> %su)"|format(16 * h) if halves == 2 }}{{ " & 0xffffu" if halves == 2 or nested }}) + 3u) / 4u){% endmacro %}
{# Whether quad b of pair t has a live input. #}
{% macro has(head, t, b) %}
{% set h = t * groups // 2 if halves == 2 else 0 %}
{{ quads_of(head, h) }} > {{ (t * groups) % apart_by + b * apart_by }}u + line_group
{%- endmacro %}
{# Whether quad b of pair t has a live lower half. #}
{% macro has_lower(head, t, b) %}(({{ head }}.x >> 16u) + 3u) / 4u > {{ (t * groups) % apart_by + b * apart_by }}u + line_group{% endmacro %}
{# Quad b of pair t of the first group, without lists. #}
{% macro quad(t, b) %}{{ (t * groups) // apart_by * 4 + (t * groups) % apart_by + b * apart_by }}{% endmacro %}
{% macro fetch_list(step) %}
        {
            let unit = min(({{ step }}) * CHAINS + chain, UNITS - 1u);
            next_head = lists[base + 1u + unit];
{% for t in range(loads) %}
            next_quads{{ t }} = lists[base + 1u + UNITS + unit * 4u + {{ t * groups }}u + line_group];
{% endfor %}
        }
{% endmacro %}
{# Loads block `step` of a chain. #}
{% macro fetch_block(s, step) %}
        {
            let unit = min(({{ step }}) * CHAINS + chain, UNITS - 1u);
            let lines = (slab * K + unit * 32u) * LINE + part * WIDTH + word;
{% if upper_bits %}
            let uppers = {{ sections[s].high }}u + (slab * K + unit * 32u) * {{ line * upper_bits // 4 }}u + (part * WIDTH + word) / {{ 4 // upper_bits }}u;
{% endif %}
{% if chosen %}
            head = next_head;
{% endif %}
{% for t in range(loads) %}
{% if chosen %}
            quads{{ t }} = next_quads{{ t }};
{% endif %}
{% for b in range(2) %}
{% if chosen %}
            if ({{ has("head", t, b) }}) {
                let inputs = quads{{ t }}.{{ ["x", "z"][b] }};
{% for i in range(4) %}
                let input{{ i }} = (inputs >> {{ 8 * i }}u) & 31u;
{% endfor %}
{% else %}
            {
                let first = 4u * ({{ quad(t, b) }}u + line_group);
{% for i in range(4) %}
                let input{{ i }} = first + {{ i }}u;
{% endfor %}
{% endif %}
                {{ "if (%s) {"|format(has_lower("head", t, b)) if chosen and nested }}
                w{{ t }}_{{ b }} = vec4({% for i in range(4) %}m{{ s }}[lines + input{{ i }} * LINE], {% endfor %});
                {{ "}" if chosen and nested }}
{% if upper_bits %}
                u{{ t }}_{{ b }} = vec4({% for i in range(4) %}m{{ s }}[uppers + input{{ i }} * {{ line * upper_bits // 4 }}u], {% endfor %});
{% endif %}
            }
{% endfor %}
{% endfor %}
{% for f in range(d_fields) %}
{% for i in range(keep // 2) %}
            d{{ f }}_{{ i }} = m{{ s }}[{{ sections[s].d }}u + (((slab * {{ units // d_units }}u + unit / {{ d_units }}u) * {{ d_fields }}u + {{ f }}u) * SLAB + own) / 2u + {{ i }}u];
{% endfor %}
{% endfor %}
{% if sub_bytes %}
{% for f in range(2) %}
{% for i in range((keep + 3) // 4) %}
            f{{ f }}_{{ i }} = m{{ s }}[{{ sections[s].sub }}u + (((slab * UNITS + unit) * 2u + {{ f }}u) * SLAB + own) / 4u + {{ i }}u]{{ " >> (own % 4u * 8u)" if keep == 2 }};
{% endfor %}
{% endfor %}
{% endif %}
        }
{% endmacro %}
{# The products of four lines. #}
{% macro quad_product(t, b) %}
{% set h = t * groups // 2 if halves == 2 else 0 %}
{% if chosen %}
            if ({{ has("now_head", t, b) }}) {
                let inputs = now_quads{{ t }}.{{ ["x", "z"][b] }};
                let a0 = now_quads{{ t }}.{{ ["y", "w"][b] }};
                // without the lower halves that are not live
                let lines = now_w{{ t }}_{{ b }}{{ " & (vec4(0u) - ((vec4(inputs) >> vec4(7u, 15u, 23u, 31u)) & vec4(1u)))" if nested }};
                let w = vec4({% for i in range(4) %}rotated(lines[{{ i }}], (inputs >> {{ 8 * i + 2 }}u) & 24u), {% endfor %});
{% else %}
            {
                let a0 = codes[at * 8u + {{ quad(t, b) }}u + line_group];
                let w = now_w{{ t }}_{{ b }};
{% endif %}
                let a = vec4(a0, rotated(a0, 8u), rotated(a0, 16u), rotated(a0, 24u));
{% if upper_bits %}
{% for i in range(4) %}
                let upper{{ i }} = uppers(now_u{{ t }}_{{ b }}[{{ i }}] >> upper_shift);
{% endfor %}
{% for p in range(2) %}
{% if chosen %}
                let high{{ p }} = vec4({% for i in range(4) %}rotated(upper{{ i }}[{{ p }}], (inputs >> {{ 8 * i + 2 }}u) & 24u), {% endfor %});
{% else %}
                let high{{ p }} = vec4({% for i in range(4) %}upper{{ i }}[{{ p }}], {% endfor %});
{% endif %}
                let codes{{ p }} = transposed(((w >> vec4({{ 4 * p }}u)) & vec4(0x0f0f0f0fu)) | high{{ p }});
{% endfor %}
{% elif per_word == 8 %}
                let both = transposed(w);
                let codes0 = both & vec4(0x0f0f0f0fu);
                let codes1 = (both >> vec4(4u)) & vec4(0x0f0f0f0fu);
{% else %}
                let codes0 = transposed(w);
{% endif %}
{% for p in range(parts) %}
{% for j in range(4) %}
                all{{ h }}_{{ 4 * p + j }} += dot4I8Packed(codes{{ p }}[{{ j }}], a[{{ j }}]);
{% endfor %}
{% endfor %}
            }
{% endmacro %}

{# The chains of this team, of side `s`. #}
{% macro chains_of(s) %}
    for (var chain = team; chain < CHAINS; chain += TEAMS) {
{% for j in range(keep) %}
        var sum{{ j }} = 0.0;
{% endfor %}
{% if blocks %}
{% if not chosen and (s == 0 or not glu) %}
        // the first lines of the first chain are loaded before the row is prepared
        if (chain != team) {
{{ fetch_block(s, "0u") }}
        }
{% else %}
{% if chosen %}
{{ fetch_list("0u") }}
{% endif %}
{{ fetch_block(s, "0u") }}
{% if chosen %}
{{ fetch_list("1u") }}
{% endif %}
{% endif %}
        for (var step = 0u; step < STEPS; step++) {
            let unit = step * CHAINS + chain;
            let at = min(unit, UNITS - 1u);
{% if chosen %}
            let now_head = head;
{% endif %}
{% for t in range(loads) %}
{% if chosen %}
            let now_quads{{ t }} = quads{{ t }};
{% endif %}
{% for b in range(2) %}
            let now_w{{ t }}_{{ b }} = w{{ t }}_{{ b }};
{% if upper_bits %}
            let now_u{{ t }}_{{ b }} = u{{ t }}_{{ b }};
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
{% for i in range((keep + 3) // 4) %}
            let now_f{{ f }}_{{ i }} = f{{ f }}_{{ i }};
{% endfor %}
{% endfor %}
{% endif %}
            if (step + 1u < STEPS) {
{{ fetch_block(s, "step + 1u") }}
{% if chosen %}
{{ fetch_list("step + 2u") }}
{% endif %}
            }
{% for h in range(halves) %}
{% for j in range(per_word) %}
            var all{{ h }}_{{ j }} = 0i;
{% endfor %}
{% endfor %}
{% for t in range(loads) %}
{% for b in range(2) %}
{{ quad_product(t, b) }}
{% endfor %}
{% endfor %}
{% if chosen %}
            let scale = bitcast<f32>(now_head.y);
            let live_sums = bitcast<vec2<i32>>(now_head.zw);
{% else %}
            let scale = scales[at].x;
            let both_sums = bitcast<i32>(scales[at].y);
{% if halves == 2 %}
            let live_sums = vec2((both_sums << 16u) >> 16u, both_sums >> 16u);
{% else %}
            let live_sums = vec2(((both_sums << 16u) >> 16u) + (both_sums >> 16u), 0);
{% endif %}
{% endif %}
{% for h in range(halves) %}
            let live_sum{{ h }} = live_sums[{{ h }}];
{% if groups == 4 %}
{% for j in range(2 * keep) %}
            let half{{ h }}_{{ j }} = select(all{{ h }}_{{ j }}, all{{ h }}_{{ j + 2 * keep }}, line_group >= 2u)
                + subgroupShuffleXor(select(all{{ h }}_{{ j + 2 * keep }}, all{{ h }}_{{ j }}, line_group >= 2u), 2u * WIDTH);
{% endfor %}
{% endif %}
{% set sum = "half" if groups == 4 else "all" %}
{% for j in range(keep) %}
{% if groups > 1 %}
            let of{{ h }}_{{ j }} = select({{ sum }}{{ h }}_{{ j }}, {{ sum }}{{ h }}_{{ j + keep }}, line_group % 2u == 1u)
                + subgroupShuffleXor(select({{ sum }}{{ h }}_{{ j + keep }}, {{ sum }}{{ h }}_{{ j }}, line_group % 2u == 1u), WIDTH){{ " - %s * live_sum%s"|format(zero, h) if zero }};
{% else %}
            let of{{ h }}_{{ j }} = all{{ h }}_{{ j }}{{ " - %s * live_sum%s"|format(zero, h) if zero }};
{% endif %}
{% endfor %}
{% endfor %}
{% if units % chains == 0 %}
            let inside = true;
{% else %}
            let inside = unit < UNITS;
{% endif %}
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
{% elif nested and chosen %}
                let product = d * fma(7.5, exact(live_sums.y), exact(of0_{{ j }}));
{% else %}
                let product = d * exact(of0_{{ j }});
{% endif %}
                sum{{ j }} = select(sum{{ j }}, fma(scale, product, sum{{ j }}), inside);
            }
{% endfor %}
        }
{% else %}
        for (var step = 0u; step < STEPS; step++) {
            let unit = step * CHAINS + chain;
            if (unit >= UNITS) {
                break;
            }
{% if chosen %}
            let count = lists[base + 1u + unit].x;
{% else %}
            let count = min(K - unit * {{ unit }}u, {{ unit }}u);
{% endif %}
{% for first in range(0, unit, 4) %}
            if (count > {{ first }}u) {
{% if chosen %}
{% for i in range(first, first + 4, 2) %}
                let entry{{ i }} = lists[base + 1u + UNITS + unit * {{ unit // 2 }}u + {{ i // 2 }}u];
{% endfor %}
{% else %}
                let at = unit * {{ unit // 4 }}u + {{ first // 4 }}u;
                let v = x[row * (K / 4u) + at]{{ " * norm_weight[at]" if norm }};
{% endif %}
{% for i in range(first, first + 4) %}
{% if chosen %}
                let a{{ i }} = bitcast<f32>(entry{{ i - i % 2 }}.{{ ["y", "w"][i % 2] }});
                let input{{ i }} = entry{{ i - i % 2 }}.{{ ["x", "z"][i % 2] }};
{% else %}
                let a{{ i }} = v[{{ i % 4 }}];
                let input{{ i }} = unit * {{ unit }}u + {{ i }}u;
{% endif %}
                var w{{ i }} = 0u;
                if ({{ i }}u < count) {
                    w{{ i }} = m{{ s }}[(slab * K + input{{ i }}) * LINE + part * WIDTH + word];
                }
{% endfor %}
{% for i in range(first, first + 4) %}
                if ({{ i }}u < count) {
{% if format == "F16" %}
                    let w = unpack2x16float(w{{ i }});
                    sum0 = fma(w.x, a{{ i }}, sum0);
                    sum1 = fma(w.y, a{{ i }}, sum1);
{% elif format == "BF16" %}
                    sum0 = fma(bitcast<f32>(w{{ i }} << 16u), a{{ i }}, sum0);
                    sum1 = fma(bitcast<f32>(w{{ i }} & 0xffff0000u), a{{ i }}, sum1);
{% else %}
                    sum0 = fma(bitcast<f32>(w{{ i }}), a{{ i }}, sum0);
{% endif %}
                }
{% endfor %}
            }
{% endfor %}
        }
{% endif %}
{% for j in range(keep) %}
        chain_sums[chain * OUT + word * {{ per_word }}u + line_group * KEEP + {{ j }}u] = sum{{ j }};
{% endfor %}
    }
{% endmacro %}

{# The sum of the chains of output `here` by pairs of neighbours, as lanes are added in matvec.wgsl. #}
{% macro tree() %}
{% for i in range(chains) %}
        let t1_{{ i }} = chain_sums[{{ i }}u * OUT + here];
{% endfor %}
{% set powers = [1, 2, 4, 8, 16, 32, 64] %}
{% for power in powers if power < chains %}
{% for i in range(chains // (2 * power)) %}
        let t{{ 2 * power }}_{{ i }} = t{{ power }}_{{ 2 * i }} + t{{ power }}_{{ 2 * i + 1 }};
{% endfor %}
{% endfor %}
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
    let row = group.y;
{% if only_below %}
    // a bit of rows whose effort is below 1
    if (lives[{{ lives_at }}u + row * {{ lives_step }}u] >> 31u == 0u) {
        return;
    }
{% endif %}
    var side = 0u;
    var tile = group.x;
{% for s in range(1, 0 if glu else sides | length) %}
    if (group.x >= {{ sides[s].first }}u) {
        side = {{ s }}u;
        tile = group.x - {{ sides[s].first }}u;
    }
{% endfor %}
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
{% if blocks %}
{{ declare() }}
{% endif %}
{% if chosen %}
    var base = row * {{ row_vectors }}u + side * {{ side_vectors }}u;
{% if norm %}
    let by = bitcast<f32>(lists[base].x);
{% endif %}
{% elif blocks %}
    {
        let chain = min(team, CHAINS - 1u);
{% for s in range(1 if glu else sides | length) %}
        if (side == {{ s }}u) {
{{ fetch_block(s, "0u") }}
        }
{% endfor %}
    }
{% if norm %}
    note_squares(0u, prepare(0u, row, 0u, thread), subgroup, lane);
{% else %}
    _ = prepare(0u, row, 0u, thread);
{% endif %}
    workgroupBarrier();
{% elif norm %}
    var sum_of_squares = 0.0;
    for (var i = thread; i < K / 4u; i += THREADS) {
        sum_of_squares = add_squares(x[row * (K / 4u) + i], sum_of_squares);
    }
    note_squares(0u, sum_of_squares, subgroup, lane);
    workgroupBarrier();
{% endif %}
{% if norm and not chosen %}
    let by = factor(0u, subgroup_count);
{% endif %}
    var value: f32;
{% if glu %}
{{ chains_of(0) }}
    workgroupBarrier();
    var gate: f32;
    {
{{ tree() }}
        gate = t{{ chains }}_0;
    }
    workgroupBarrier();
{% if chosen %}
    base += {{ side_vectors }}u;
{% endif %}
{{ chains_of(1) }}
{% else %}
{% for side in sides %}
{% if sides | length > 1 %}
    if (side == {{ loop.index0 }}u) {
{% endif %}
{{ chains_of(loop.index0) }}
{% if sides | length > 1 %}
    }
{% endif %}
{% endfor %}
{% endif %}
    workgroupBarrier();
    {
{{ tree() }}
        value = t{{ chains }}_0;
    }
    let n = slab * SLAB + part * OUT + here;
    let rows = array<u32, {{ sides | length }}>({% for side in sides %}{{ side.rows }}u, {% endfor %})[side];
    if (thread >= OUT || n >= rows) {
        return;
    }
{% if glu %}
    y0[row * rows + n] = gated(gate{{ " * by" if norm }}, value{{ " * by" if norm }});
{% else %}
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
        let at = row * {{ side.rows }}u + n;
        {{ "kept" if apart else "y%s"|format(loop.index0) }}[at] = {{ "y%s[at] + "|format(loop.index0) if add }}value;
    }
{% endfor %}
{% endif %}
}
