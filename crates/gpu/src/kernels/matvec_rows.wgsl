{# A matrix product for several rows of activations in 8 bits (to_q8.wgsl), of weights in blocks:
       y[r][n] = Σ_k W[n][k] · a[r][k] (+ bias[n])
       y[r][n] += …                                      with add
       y[r][n] = gated(gate, up)                         with glu: two matrices
   A subgroup takes `each` rows of the matrix at a time and `batch` rows of activations; its lanes go
   along K. Activations pass through workgroup memory in chunks. Each lane adds up the same units in
   the same order as in matvec.wgsl, so that a row's result has the same bits. #}
const K = {{ k }}u;
const UNITS = {{ units }}u;
const THREADS = {{ threads }}u;
const CHUNK = {{ chunk }}u;
const BATCH = {{ batch }}u;
const EACH = {{ each }}u;
{% set whole = chunk >= units %}

var<storage, read> q8_codes: array<vec4<u32>>;
var<storage, read> q8_scales: array<vec2<f32>>;
var<storage, read_write> y: array<f32>;
var<storage, read> pass_info: array<u32>;
{% if norm %}
var<storage, read> factors: array<f32>;
{% endif %}
{% if bias %}
var<storage, read> bias: array<f32>;
{% endif %}
{% if experts %}
{% include "experts.wgsl" %}
{% endif %}
{% for matrix in matrices %}
{% set w = loop.index0 %}
{% with kind=matrix.kind, defines=matrix.defines, format=matrix.of.format,
    low_type=matrix.of.low_type, low_bits=matrix.of.low_bits, high_bits=matrix.of.high_bits,
    high_bytes=matrix.of.high_bytes, entry=matrix.of.entry,
    scales=matrix.of.scales,
    zero=matrix.of.zero, has_min=matrix.of.has_min, levels=matrix.of.levels,
    sub_bytes=matrix.of.sub_bytes, d_shift=matrix.of.d_shift, joined=matrix.of.joined %}
{% include family %}
{% endwith %}
{% endfor %}

// codes of unit u of row r: halves h at (r · 2 + h) · CHUNK + u
var<workgroup> codes: array<vec4<u32>, {{ batch * 2 * chunk }}>;
// scale, and the sums of the halves' codes in 16 bits each
var<workgroup> scales: array<vec2<f32>, {{ batch * chunk }}>;

{% include "block_products.wgsl" %}
{% include "lanes.wgsl" %}
{% if glu %}
{% include "gating.wgsl" %}
{% endif %}

// Copies the units from `start` on of the rows from `first` on to workgroup memory.
fn load_chunk(start: u32, first: u32, count: u32, thread: u32) {
{% set copies = (batch * 2 * chunk + threads - 1) // threads %}
{% for i in range(copies) %}
    let i{{ i }} = min(thread + {{ i * threads }}u, {{ batch * 2 * chunk - 1 }}u);
    let from_row{{ i }} = {{ "x_row(i%s / %su)"|format(i, 2 * chunk) if experts else "min(first + i%s / %su, count - 1u)"|format(i, 2 * chunk) }};
    let from_unit{{ i }} = min(start + i{{ i }} % CHUNK, UNITS - 1u);
    let from{{ i }} = (from_row{{ i }} * 2u + i{{ i }} / CHUNK % 2u) * UNITS + from_unit{{ i }};
    let code{{ i }} = q8_codes[from{{ i }}];
{% endfor %}
{% set scale_copies = (batch * chunk + threads - 1) // threads %}
{% for i in range(scale_copies) %}
    let j{{ i }} = min(thread + {{ i * threads }}u, {{ batch * chunk - 1 }}u);
    let of_row{{ i }} = {{ "x_row(j%s / CHUNK)"|format(i) if experts else "min(first + j%s / CHUNK, count - 1u)"|format(i) }};
    let scale{{ i }} = q8_scales[of_row{{ i }} * UNITS + min(start + j{{ i }} % CHUNK, UNITS - 1u)];
{% endfor %}
{% for i in range(copies) %}
    codes[i{{ i }}] = code{{ i }};
{% endfor %}
{% for i in range(scale_copies) %}
    scales[j{{ i }}] = scale{{ i }};
{% endfor %}
}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroup_count: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) subgroup_width: u32,
) {
{% if fixed_width %}
    let width = {{ fixed_width }}u;
    let subgroups = {{ threads // fixed_width }}u;
{% else %}
    let width = subgroup_width;
    let subgroups = subgroup_count;
{% endif %}
    let thread = subgroup * width + lane;
    let count = pass_info[{{ count_at }}];
{% if experts %}
    if (!choose(group.y, group.z, count)) {
        return;
    }
{% endif %}
    let first_row = {{ "first_pair" if experts else "group.y * BATCH" }};
    // all subgroups take the same number of turns, so that they meet at barriers
    let turns = ({{ tile }}u + subgroups * EACH - 1u) / (subgroups * EACH);
    let end_of_tile = min(group.x * {{ tile }}u + {{ tile }}u, {{ rows }}u);
{% if whole %}
    load_chunk(0u, first_row, count, thread);
    workgroupBarrier();
{% endif %}
    for (var turn = 0u; turn < turns; turn++) {
        let first = group.x * {{ tile }}u + (turn * subgroups + subgroup) * EACH;
{% for n in range(each) %}
        let row{{ n }} = min(first + {{ n }}u, {{ rows - 1 }}u);
{% endfor %}
{% for w in range(matrices | length) %}
{% for n in range(each) %}
{% for r in range(batch) %}
        var sum{{ w }}_{{ n }}_{{ r }} = 0.0;
{% endfor %}
{% endfor %}
{% endfor %}
        for (var start = 0u; start < UNITS; start += CHUNK) {
            // weights are on their way while activations are copied
            var unit = start + lane;
{% for w in range(matrices | length) %}
{% for n in range(each) %}
            var raw{{ w }}_{{ n }} = fetch{{ w }}({{ "base_row + " if experts }}row{{ n }}, min(unit, UNITS - 1u));
{% endfor %}
{% endfor %}
{% if not whole %}
            workgroupBarrier();
            load_chunk(start, first_row, count, thread);
            workgroupBarrier();
{% endif %}
            let end = min(start + CHUNK, UNITS);
            while (unit < end) {
{% for w in range(matrices | length) %}
{% for n in range(each) %}
                let w{{ w }}_{{ n }} = decode{{ matrices[w].kind }}(raw{{ w }}_{{ n }});
{% endfor %}
{% endfor %}
                let next = unit + width;
{% for w in range(matrices | length) %}
{% for n in range(each) %}
                raw{{ w }}_{{ n }} = fetch{{ w }}({{ "base_row + " if experts }}row{{ n }}, min(next, UNITS - 1u));
{% endfor %}
{% endfor %}
{% for r in range(batch) %}
                let a{{ r }} = activations({{ r }}u, unit - start);
{% for n in range(each) %}
{% for w in range(matrices | length) %}
                sum{{ w }}_{{ n }}_{{ r }} = add_product{{ matrices[w].kind }}(w{{ w }}_{{ n }}, a{{ r }}, sum{{ w }}_{{ n }}_{{ r }});
{% endfor %}
{% endfor %}
{% endfor %}
                unit = next;
            }
        }
        // result i = r · EACH + n goes to lane i % LANES, so that lanes finish them in parallel
{% set results = batch * each %}
{% set rounds = (results + lanes - 1) // lanes %}
{% for w in range(matrices | length) %}
{% if fixed_width %}
{# Values are halved while lanes are added pairwise: at each level a lane sends the values that the
   other one keeps. The order of the sums is that of `sum_of_lanes`. #}
{% for k in range(rounds) %}
{% set here = [lanes, results - k * lanes] | min %}
{% set powers = [1, 2, 4, 8, 16, 32, 64, 128] %}
{% set levels = powers | select("lt", here) | list | length %}
{% for i in range(2 ** levels) %}
{% set at = k * lanes + i %}
        let v{{ w }}_{{ k }}_0_{{ i }} = {{ "sum%s_%s_%s"|format(w, at % each, at // each) if i < here else "0.0" }};
{% endfor %}
{% for level in range(levels) %}
{% set bit = 2 ** level %}
{% for i in range(2 ** (levels - level - 1)) %}
{% set name = "v%s_%s_%s_"|format(w, k, level) %}
        let v{{ w }}_{{ k }}_{{ level + 1 }}_{{ i }} = select({{ name }}{{ 2 * i }}, {{ name }}{{ 2 * i + 1 }}, (lane & {{ bit }}u) != 0u)
            + subgroupShuffleXor(select({{ name }}{{ 2 * i + 1 }}, {{ name }}{{ 2 * i }}, (lane & {{ bit }}u) != 0u), {{ bit }}u);
{% endfor %}
{% endfor %}
        var total{{ w }}_{{ k }} = v{{ w }}_{{ k }}_{{ levels }}_0;
{% for bit in powers if bit >= here and bit < fixed_width %}
        total{{ w }}_{{ k }} += subgroupShuffleXor(total{{ w }}_{{ k }}, {{ bit }}u);
{% endfor %}
{% endfor %}
{% else %}
{% for k in range(rounds) %}
        var total{{ w }}_{{ k }} = 0.0;
{% endfor %}
{% for r in range(batch) %}
{% for n in range(each) %}
{% set i = r * each + n %}
        {
            let total = sum_of_lanes(sum{{ w }}_{{ n }}_{{ r }});
            total{{ w }}_{{ i // lanes }} = select(total{{ w }}_{{ i // lanes }}, total, lane == {{ i % lanes }}u);
        }
{% endfor %}
{% endfor %}
{% endif %}
{% endfor %}
{% for k in range(rounds) %}
        {
            let i = {{ k * lanes }}u + lane;
            let row = first_row + i / EACH;
            let n = first + i % EACH;
            if (lane < {{ lanes }}u && i < {{ batch * each }}u && row < {{ "end_pair" if experts else "count" }} && n < end_of_tile) {
{% if norm %}
                let factor = factors[row];
{% endif %}
{% if glu %}
                let gate = total0_{{ k }}{{ " * factor" if norm }};
                let value = gated(gate, total1_{{ k }}{{ " * factor" if norm }});
{% elif bias and norm %}
                let value = fma(total0_{{ k }}, factor, bias[{{ offset }}u + n]);
{% else %}
                let value = total0_{{ k }}{{ " * factor" if norm }}{% if bias %} + bias[{{ "which * %su"|format(stride) if experts else "%su"|format(offset) }} + n]{% endif %};
{% endif %}
                let at = {{ "y_row(row - first_pair)" if experts else "row" }} * {{ stride }}u + {{ offset }}u + n;
                y[at] = {{ "y[at] + " if add }}value;
            }
        }
{% endfor %}
    }
}
