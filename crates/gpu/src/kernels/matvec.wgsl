{# A matrix product for decoding rows, with the norm before it and the operation after it:
       y[r][n] = Σ_k W[n][k] · a[r][k] (+ bias[n])       a = x, or norm(x)
       y[r][n] += …                                      with add
       y[r][n] = gated(gate, up)                         with glu: two matrices
   With `experts` there are several matrices, of which a workgroup chooses one (experts.wgsl).
   With several `sides` the product is fused: matrices of any formats in blocks read the same x, each
   has outputs of its own, and a workgroup computes rows of one of them.
   A subgroup computes `each` rows of the matrix at a time; its lanes divide the units of a row, and
   each lane reads `ahead` units at a time. The workgroup first prepares the activations of all its
   rows: for weights in blocks 8-bit codes with a scale for 32 elements (the codes of crates/cpu, so
   that both compute the same integers), else floats. Weights are prefetched one stage before their
   use, those of the first stage before the activations are prepared, to hide the latency of
   memory. #}
const K = {{ k }}u;
const UNITS = {{ units }}u;
const THREADS = {{ threads }}u;
const CHUNK = {{ chunk }}u;
{% set whole = chunk >= units %}

{% set vector = blocks or k % 4 == 0 %}
var<storage, read> x: array<{{ "vec4<f32>" if vector else "f32" }}>;
var<storage, read_write> y: array<f32>;
var<storage, read> pass_info: array<u32>;
{% if norm %}
var<storage, read> norm_weight: array<{{ "vec4<f32>" if vector else "f32" }}>;
{% endif %}
{% if bias %}
var<storage, read> bias: array<f32>;
{% if glu %}
var<storage, read> bias_up: array<f32>;
{% endif %}
{% endif %}
{% if experts %}
{% include "experts.wgsl" %}
{% endif %}
{% for s in range(1, sides | length) %}
var<storage, read_write> y{{ s }}: array<f32>;
{% if bias %}
var<storage, read> bias{{ s }}: array<f32>;
{% endif %}
{% endfor %}
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

{% if blocks %}
// codes of unit u of row r: halves h at (r · 2 + h) · CHUNK + u
var<workgroup> codes: array<vec4<u32>, {{ batch * 2 * chunk }}>;
// scale, and the sums of the halves' codes in 16 bits each
var<workgroup> scales: array<vec2<f32>, {{ batch * chunk }}>;
{% else %}
var<workgroup> floats: array<vec4<f32>, {{ batch * chunk * unit // 4 }}>;
{% endif %}
{% if norm %}
var<workgroup> squares: array<f32, {{ batch * subgroups }}>;
{% endif %}

{% if norm %}
{% include "squares.wgsl" %}
{% endif %}
{% if glu %}
{% include "gating.wgsl" %}
{% elif activation %}
{% include "activation.wgsl" %}
{% endif %}

{% if blocks %}
fn keep_code(r: u32, unit: u32, word: u32, code: u32) {
    codes[(r * 2u + word / 4u) * CHUNK + unit][word % 4u] = code;
}

fn keep_scale(r: u32, unit: u32, value: vec2<f32>) {
    scales[r * CHUNK + unit] = value;
}

{% set own = 8 // share %}
{% include "quantize.wgsl" %}

{% if norm and not whole %}
// This thread's partial sum of the squares of a row, in the order of `prepare` of a whole row.
fn row_squares(row: u32, thread: u32) -> f32 {
    var sum = 0.0;
    for (var i = thread; i < {{ units * share }}u; i += THREADS) {
{% for j in range(own) %}
        sum = add_squares(x[row * (K / 4u) + i * {{ own }}u + {{ j }}u], sum);
{% endfor %}
    }
    return sum;
}
{% endif %}

{% include "block_products.wgsl" %}
{% else %}
// Copies the units start .. start + CHUNK of row `row` into slot r, with zeros after the row's end.
// Returns this thread's partial sum of squares.
fn prepare(r: u32, row: u32, start: u32, thread: u32) -> f32 {
    var sum_of_squares = 0.0;
    for (var i = thread; i < CHUNK * {{ unit // 4 }}u; i += THREADS) {
        let at = start * {{ unit // 4 }}u + i;
        var v = vec4(0.0);
{% if vector %}
        if (at < K / 4u) {
            v = x[row * (K / 4u) + at];
        }
{% else %}
{% for j in range(4) %}
        if (at * 4u + {{ j }}u < K) {
            v[{{ j }}] = x[row * K + at * 4u + {{ j }}u];
        }
{% endfor %}
{% endif %}
{% if norm %}
        sum_of_squares = add_squares(v, sum_of_squares);
{% if vector %}
        if (at < K / 4u) {
            v *= norm_weight[at];
        }
{% else %}
{% for j in range(4) %}
        if (at * 4u + {{ j }}u < K) {
            v[{{ j }}] *= norm_weight[at * 4u + {{ j }}u];
        }
{% endfor %}
{% endif %}
{% endif %}
        floats[r * CHUNK * {{ unit // 4 }}u + i] = v;
    }
    return sum_of_squares;
}

{% if norm and not whole %}
// This thread's partial sum of the squares of a row, in the order of `prepare` of a whole row.
fn row_squares(row: u32, thread: u32) -> f32 {
    var sum = 0.0;
    for (var i = thread; i < {{ units * unit // 4 }}u; i += THREADS) {
        var v = vec4(0.0);
{% if vector %}
        if (i < K / 4u) {
            v = x[row * (K / 4u) + i];
        }
{% else %}
{% for j in range(4) %}
        if (i * 4u + {{ j }}u < K) {
            v[{{ j }}] = x[row * K + i * 4u + {{ j }}u];
        }
{% endfor %}
{% endif %}
        sum = add_squares(v, sum);
    }
    return sum;
}
{% endif %}

struct Activations {
{% for j in range(unit // 4) %}
    v{{ j }}: vec4<f32>,
{% endfor %}
}

fn activations(r: u32, unit: u32) -> Activations {
    let at = (r * CHUNK + unit) * {{ unit // 4 }}u;
    return Activations({% for j in range(unit // 4) %}floats[at + {{ j }}u], {% endfor %});
}

fn add_product{{ matrices[0].kind }}(u: Unit{{ matrices[0].kind }}, a: Activations, before: f32) -> f32 {
    var sum = before;
{% for j in range(unit // 4) %}
{% for c in ["x", "y", "z", "w"] %}
    sum = fma(u.v{{ j }}.{{ c }}, a.v{{ j }}.{{ c }}, sum);
{% endfor %}
{% endfor %}
    return sum;
}
{% endif %}

{# A loop over the rows: unrolled it would take drivers seconds to compile. #}
{% macro prepare_all(start) %}
    for (var r = 0u; r < {{ batch }}u; r++) {
        let row = {{ "x_row(r)" if experts else "min(group.y * %su + r, count - 1u)"|format(batch) }};
{% if norm and start == "0u" %}
        note_squares(r, prepare(r, row, 0u, thread), subgroup, lane);
{% else %}
        _ = prepare(r, row, {{ start }}, thread);
{% endif %}
    }
{% endmacro %}
{# Prefetches the operands of a stage: the weights of K step `stage % k_steps` of the rows of
   iteration `stage / k_steps`, and the values of y with `add`. #}
{% macro fetch_stage(s, ws, stage) %}
{% for n in range(each) %}
        let fetch_row{{ n }} = min(first_of(tile, ({{ stage }}) / {{ k_steps }}u, subgroup, subgroups) + {{ n }}u, {{ sides[s].rows - 1 }}u);
{% if add %}
{% for r in range(batch) %}
        old{{ n }}_{{ r }} = y{{ s or "" }}[in{{ r }} * {{ sides[s].stride }}u + {{ offset }}u + fetch_row{{ n }}];
{% endfor %}
{% endif %}
{% endfor %}
{% for a in range(ahead) %}
        let fetch_unit{{ a }} = min((({{ stage }}) % {{ k_steps }}u * {{ ahead }}u + {{ a }}u) * width + lane, UNITS - 1u);
{% for n in range(each) %}
{% for w in ws %}
        raw{{ w }}_{{ n }}_{{ a }} = fetch{{ w }}({{ "base_row + " if experts }}fetch_row{{ n }}, fetch_unit{{ a }});
{% endfor %}
{% endfor %}
{% endfor %}
{% endmacro %}
{# The rows of side `s`, of the matrices `ws`. #}
{% macro rows_of(s, ws) %}
{% if whole %}
{% for n in range(each) %}
{% if add %}
{% for r in range(batch) %}
    var old{{ n }}_{{ r }}: f32;
{% endfor %}
{% endif %}
{% for w in ws %}
{% for a in range(ahead) %}
    var raw{{ w }}_{{ n }}_{{ a }}: Raw{{ matrices[w].kind }};
{% endfor %}
{% endfor %}
{% endfor %}
    {
{{ fetch_stage(s, ws, "0u") }}
    }
{{ prepare_all("0u") }}
    workgroupBarrier();
{% if norm %}
    // before the products, while weights arrive
{% for r in range(batch) %}
    let factor{{ r }} = factor({{ r }}u, subgroups);
{% endfor %}
{% endif %}
{% elif norm %}
    // the norm needs whole rows, which are read before the first chunk
    for (var r = 0u; r < {{ batch }}u; r++) {
        let row = {{ "x_row(r)" if experts else "min(group.y * %su + r, count - 1u)"|format(batch) }};
        note_squares(r, row_squares(row, thread), subgroup, lane);
    }
    workgroupBarrier();
{% endif %}
{% for n in range(each) %}
{% for w in ws %}
{% for r in range(batch) %}
    var sum{{ w }}_{{ n }}_{{ r }} = 0.0;
{% endfor %}
{% endfor %}
{% endfor %}
{% if whole %}
    for (var stage = 0u; stage < iterations * {{ k_steps }}u; stage++) {
        let iteration = stage / {{ k_steps }}u;
        let k_step = stage % {{ k_steps }}u;
{% for n in range(each) %}
{% if add %}
{% for r in range(batch) %}
        let before{{ n }}_{{ r }} = old{{ n }}_{{ r }};
{% endfor %}
{% endif %}
{% for w in ws %}
{% for a in range(ahead) %}
        let now{{ w }}_{{ n }}_{{ a }} = raw{{ w }}_{{ n }}_{{ a }};
{% endfor %}
{% endfor %}
{% endfor %}
        if (stage + 1u < iterations * {{ k_steps }}u) {
{{ fetch_stage(s, ws, "stage + 1u") }}
        }
{% for a in range(ahead) %}
        {
            let unit = (k_step * {{ ahead }}u + {{ a }}u) * width + lane;
{% if not exact %}
            let inside = unit < UNITS;
            let at = min(unit, UNITS - 1u);
{% else %}
            let at = unit;
{% endif %}
{% for n in range(each) %}
{% for w in ws %}
            let w{{ w }}_{{ n }} = decode{{ matrices[w].kind }}(now{{ w }}_{{ n }}_{{ a }});
{% endfor %}
{% endfor %}
{% for r in range(batch) %}
            let a{{ r }} = activations({{ r }}u, at);
{% for n in range(each) %}
{% for w in ws %}
{% if exact %}
            sum{{ w }}_{{ n }}_{{ r }} = add_product{{ matrices[w].kind }}(w{{ w }}_{{ n }}, a{{ r }}, sum{{ w }}_{{ n }}_{{ r }});
{% else %}
            sum{{ w }}_{{ n }}_{{ r }} = select(sum{{ w }}_{{ n }}_{{ r }}, add_product{{ matrices[w].kind }}(w{{ w }}_{{ n }}, a{{ r }}, sum{{ w }}_{{ n }}_{{ r }}), inside);
{% endif %}
{% endfor %}
{% endfor %}
{% endfor %}
        }
{% endfor %}
        if (k_step + 1u < {{ k_steps }}u) {
            continue;
        }
{% else %}
    for (var iteration = 0u; iteration < iterations; iteration++) {
{% for n in range(each) %}
        let row{{ n }} = min(first_of(tile, iteration, subgroup, subgroups) + {{ n }}u, {{ sides[s].rows - 1 }}u);
{% endfor %}
        for (var start = 0u; start < UNITS; start += CHUNK) {
            workgroupBarrier();
{{ prepare_all("start") }}
            workgroupBarrier();
            let end = min(start + CHUNK, UNITS);
            for (var unit = start + lane; unit < end; unit += width) {
{% for n in range(each) %}
{% for w in ws %}
                let w{{ w }}_{{ n }} = decode{{ matrices[w].kind }}(fetch{{ w }}({{ "base_row + " if experts }}row{{ n }}, unit));
{% endfor %}
{% endfor %}
{% for r in range(batch) %}
                let a{{ r }} = activations({{ r }}u, unit - start);
{% for n in range(each) %}
{% for w in ws %}
                sum{{ w }}_{{ n }}_{{ r }} = add_product{{ matrices[w].kind }}(w{{ w }}_{{ n }}, a{{ r }}, sum{{ w }}_{{ n }}_{{ r }});
{% endfor %}
{% endfor %}
{% endfor %}
            }
        }
{% endif %}
{% for n in range(each) %}
{% for r in range(batch) %}
{% for w in ws %}
        let total{{ w }}_{{ n }}_{{ r }} = sum_of_lanes(sum{{ w }}_{{ n }}_{{ r }});
        sum{{ w }}_{{ n }}_{{ r }} = 0.0;
{% endfor %}
{% endfor %}
{% endfor %}
        let first = first_of(tile, iteration, subgroup, subgroups);
        if (lane == 0u) {
{% for r in range(batch) %}
{% if norm and not whole %}
            let factor{{ r }} = factor({{ r }}u, subgroups);
{% endif %}
{% for n in range(each) %}
            if (first + {{ n }}u < min(tile * {{ tile }}u + {{ tile }}u, {{ sides[s].rows }}u){% if batch > 1 %} && {{ "first_pair" if experts else "group.y * %su"|format(batch) }} + {{ r }}u < {{ "end_pair" if experts else "count" }}{% endif %}) {
{% set factor = " * factor%s"|format(r) if norm else "" %}
{% set bias_at = "[which * %su + first + %su]"|format(sides[s].stride, n) if experts else "[%su + first + %su]"|format(offset, n) %}
{% if glu %}
                let gate = total0_{{ n }}_{{ r }}{{ factor }}{{ " + bias" ~ bias_at if bias }};
                let up = total1_{{ n }}_{{ r }}{{ factor }}{{ " + bias_up" ~ bias_at if bias }};
                let value = gated(gate, up);
{% else %}
{% set bias_of = "bias%s%s"|format(s or "", bias_at) %}
{% if bias and norm %}
                let value = fma(total{{ s }}_{{ n }}_{{ r }}, factor{{ r }}, {{ bias_of }});
{% else %}
                let value = total{{ s }}_{{ n }}_{{ r }}{{ factor }}{% if bias %} + {{ bias_of }}{% endif %};
{% endif %}
{% endif %}
                let at = in{{ r }} * {{ sides[s].stride }}u + {{ offset }}u + first + {{ n }}u;
                y{{ s or "" }}[at] = {{ ("before%s_%s + "|format(n, r) if whole else "y[at] + ") if add }}{{ "activated(value)" if activation and not glu else "value" }};
            }
{% endfor %}
{% endfor %}
        }
    }
{% endmacro %}
{% include "lanes.wgsl" %}

// The first row of a subgroup in an iteration.
fn first_of(group: u32, iteration: u32, subgroup: u32, subgroups: u32) -> u32 {
    return group * {{ tile }}u + (iteration * subgroups + subgroup) * {{ each }}u;
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
{% if batch == 1 %}
    let count = 1u;
{% else %}
    let count = pass_info[{{ count_at }}];
{% endif %}
{% if experts %}
    if (!choose(group.y, group.z, count)) {
        return;
    }
{% endif %}
{% for r in range(batch) %}
    // slots after the last row repeat it, and their results are not written
    let in{{ r }} = {{ "y_row(%su)"|format(r) if experts else "min(group.y * %su + %su, count - 1u)"|format(batch, r) }};
{% endfor %}
    // all subgroups have the same number of iterations, so that all reach the barriers
    let iterations = ({{ tile }}u + subgroups * {{ each }}u - 1u) / (subgroups * {{ each }}u);
{% if sides | length > 1 %}
{% for side in sides %}
    {{ "else " if not loop.first }}{% if not loop.last %}if (group.x < {{ side.end }}u) {% endif %}{
        let tile = group.x - {{ side.first }}u;
{{ rows_of(loop.index0, [loop.index0]) }}
    }
{% endfor %}
{% else %}
    let tile = group.x;
{{ rows_of(0, range(matrices | length)) }}
{% endif %}
}
