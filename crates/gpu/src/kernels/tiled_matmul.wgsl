{# A matrix product for many rows of activations, without matrix cores:
       y[r][n] = Σ_k W[n][k] · a[r][k] (· factor[r]) (+ bias[n])
       y[r][n] += …                                      with add
       y[s][r][n] = the partial sums of K split s        with on_grid
   With `experts` there are several matrices, of which a workgroup chooses one (experts.wgsl).
   A workgroup computes a tile of y, `batch` rows of activations by `rows` rows of the matrix, and a
   thread `thread_batch` by `thread_rows` results of it, whose sums stay in registers. Both operands
   pass through workgroup memory, `pieces` vectors of 16 bytes of each row at a time: of weights in
   blocks decoded codes, 16 in a piece, and of activations those of to_q8.wgsl; of weights in floats
   four f32. While a step is multiplied, the next is on its way to registers.
   K is split in the same way whether workgroups of their own compute the splits or one computes them
   one after the other, and each sum goes along its split in order: a result does not depend on the
   tile. #}
{% set threads = batch // thread_batch * (rows // thread_rows) %}
{% set across = rows // thread_rows %}
{% set down = batch // thread_batch %}
{% set each = 2 if blocks else unit // 4 %}
{% set step_units = pieces // each %}
const UNITS = {{ units }}u;
const STEPS = {{ (units + step_units - 1) // step_units }}u;
{% if splits > 1 %}
const SPLIT_STEPS = {{ split_units // step_units }}u;
{% endif %}
// vectors between the pieces of a tile: one more than its rows, so that the pieces of a row lie in
// different banks
const LEFT = {{ batch + 1 }}u;
const RIGHT = {{ rows + 1 }}u;

{% if blocks %}
// halves h of unit u of row r at (r · 2 + h) · UNITS + u
var<storage, read> q8_codes: array<vec4<u32>>;
// scale, and the sums of the halves' codes in 16 bits each
var<storage, read> q8_scales: array<vec2<f32>>;
{% set piece = "vec4<u32>" %}
{% else %}
var<storage, read> x: array<{{ "vec4<f32>" if k % 4 == 0 else "f32" }}>;
{% set piece = "vec4<f32>" %}
{% endif %}
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
{% set w = 0 %}
{% include family %}

var<workgroup> left: array<{{ piece }}, {{ pieces * (batch + 1) }}>;
var<workgroup> right: array<{{ piece }}, {{ pieces * (rows + 1) }}>;
{% if blocks %}
{# Of activations the scale, and with minima its products with the sums of codes; of weights the
   scales and the minima. #}
{% set left_scale = "vec3<f32>" if has_min and split else "vec2<f32>" if has_min else "f32" %}
{% set right_scale = "vec4<f32>" if has_min and split else "vec2<f32>" if has_min or split else "f32" %}
var<workgroup> left_scales: array<{{ left_scale }}, {{ step_units * batch }}>;
var<workgroup> right_scales: array<{{ right_scale }}, {{ step_units * rows }}>;

{% if zero %}
// Codes less ZERO, as signed bytes.
fn signed(codes: vec4<u32>) -> vec4<u32> {
    return (codes + vec4({{ 128 - zero }}u * 0x01010101u)) ^ vec4(0x80808080u);
}
{% endif %}

// A sum of products as a float, from an integer below 2²² in magnitude by the bits of 1.5 · 2²³ +
// i. A conversion takes several times as long.
fn exact(i: i32) -> f32 {
    return bitcast<f32>(0x4b400000i + i) - 12582912.0;
}

fn four(a: vec4<u32>, b: vec4<u32>) -> i32 {
    return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z)
        + dot4I8Packed(a.w, b.w);
}

// sum + the product of a unit
fn add_product(
    w0: vec4<u32>,
    w1: vec4<u32>,
    ws: {{ right_scale }},
    a0: vec4<u32>,
    a1: vec4<u32>,
    scale: {{ left_scale }},
    sum: f32,
) -> f32 {
{% if split and has_min %}
    let codes = fma(ws.x, exact(four(w0, a0)), ws.y * exact(four(w1, a1)));
    return fma(scale.x, codes, fma(ws.z, scale.y, fma(ws.w, scale.z, sum)));
{% elif split %}
    let codes = fma(ws.x, exact(four(w0, a0)), ws.y * exact(four(w1, a1)));
    return fma(scale, codes, sum);
{% elif has_min %}
    let codes = exact(four(w0, a0) + four(w1, a1));
    return fma(scale.x, ws.x * codes, fma(ws.y, scale.y, sum));
{% else %}
    let codes = exact(four(w0, a0) + four(w1, a1));
    return fma(scale, ws * codes, sum);
{% endif %}
}
{% else %}

// sum + the product of four elements
fn add_product(w: vec4<f32>, a: vec4<f32>, sum: f32) -> f32 {
    return fma(w.w, a.w, fma(w.z, a.z, fma(w.y, a.y, fma(w.x, a.x, sum))));
}
{% endif %}

{# Pieces of activations, their scales, and units of the matrix: how many of them a step has, and a
   thread takes. #}
{% set a_all = batch * pieces %}
{% set a_turns = (a_all + threads - 1) // threads %}
{% set s_all = batch * step_units %}
{% set s_turns = (s_all + threads - 1) // threads if blocks else 0 %}
{% set w_all = rows * step_units %}
{% set w_turns = (w_all + threads - 1) // threads %}
// The operands of one step that a thread loads.
struct Fetched {
{% for i in range(a_turns) %}
    a{{ i }}: {{ piece }},
{% endfor %}
{% for i in range(s_turns) %}
    s{{ i }}: vec2<f32>,
{% endfor %}
{% for i in range(w_turns) %}
    w{{ i }}: Raw,
{% endfor %}
}

{# The row of activations of row `r` of the tile. #}
{% macro a_row(r) -%}
{{ "x_row(" ~ r ~ ")" if experts else "min(first + " ~ r ~ ", count - 1u)" }}
{%- endmacro %}

// Rows after the last repeat it: they are not written to y. Units after the last repeat it: they are
// multiplied by zeros.
fn fetch_step(step: u32, thread: u32, first: u32, count: u32, first_row: u32) -> Fetched {
    var fetched: Fetched;
{% for i in range(a_turns) %}
    {
        let p = thread + {{ i * threads }}u;
{% if blocks %}
        // the halves of a unit are apart, and units of a half adjacent
        let r = min(p / {{ pieces }}u, {{ batch - 1 }}u);
        let u = min(step * {{ step_units }}u + p % {{ step_units }}u, UNITS - 1u);
        let h = p / {{ step_units }}u % 2u;
        fetched.a{{ i }} = q8_codes[({{ a_row("r") }} * 2u + h) * UNITS + u];
{% else %}
        let r = min(p / {{ pieces }}u, {{ batch - 1 }}u);
        let at = step * {{ pieces }}u + p % {{ pieces }}u;
        let from_row = {{ a_row("r") }};
{% if k % 4 == 0 %}
        let some = x[from_row * {{ k // 4 }}u + min(at, {{ k // 4 - 1 }}u)];
        fetched.a{{ i }} = select(vec4(0.0), some, at < {{ k // 4 }}u);
{% else %}
{% for c in range(4) %}
        let e{{ c }} = x[from_row * {{ k }}u + min(at * 4u + {{ c }}u, {{ k - 1 }}u)];
{% endfor %}
        let inside = vec4(at * 4u) + vec4(0u, 1u, 2u, 3u) < vec4({{ k }}u);
        fetched.a{{ i }} = select(vec4(0.0), vec4(e0, e1, e2, e3), inside);
{% endif %}
{% endif %}
    }
{% endfor %}
{% for i in range(s_turns) %}
    {
        let p = thread + {{ i * threads }}u;
        let r = min(p / {{ step_units }}u, {{ batch - 1 }}u);
        let u = step * {{ step_units }}u + p % {{ step_units }}u;
        {{ "var" if norm else "let" }} some = q8_scales[{{ a_row("r") }} * UNITS + min(u, UNITS - 1u)];
{% if norm %}
        some.x *= factors[{{ a_row("r") }}];
{% endif %}
        fetched.s{{ i }} = select(vec2(0.0), some, u < UNITS);
    }
{% endfor %}
{% for i in range(w_turns) %}
    {
        let p = thread + {{ i * threads }}u;
        let n = min(first_row + p / {{ step_units }}u, {{ matrix_rows - 1 }}u);
        let u = min(step * {{ step_units }}u + p % {{ step_units }}u, UNITS - 1u);
        fetched.w{{ i }} = fetch0({{ "base_row + " if experts }}n, u);
    }
{% endfor %}
    return fetched;
}

fn keep_step(f: Fetched, thread: u32) {
{% for i in range(a_turns) %}
    {
        let p = thread + {{ i * threads }}u;
{% if (i + 1) * threads > a_all %}
        if (p < {{ a_all }}u) {
{% endif %}
{% if blocks %}
        let piece = p % {{ step_units }}u * 2u + p / {{ step_units }}u % 2u;
{% else %}
        let piece = p % {{ pieces }}u;
{% endif %}
        left[piece * LEFT + p / {{ pieces }}u] = f.a{{ i }};
{% if (i + 1) * threads > a_all %}
        }
{% endif %}
    }
{% endfor %}
{% for i in range(s_turns) %}
    {
        let p = thread + {{ i * threads }}u;
{% if (i + 1) * threads > s_all %}
        if (p < {{ s_all }}u) {
{% endif %}
        let scale = f.s{{ i }}.x;
{% if has_min %}
        let sums = bitcast<i32>(f.s{{ i }}.y);
        let halves = vec2<f32>(vec2((sums << 16u) >> 16u, sums >> 16u));
{% endif %}
        left_scales[p % {{ step_units }}u * {{ batch }}u + p / {{ step_units }}u] =
            {{ "vec3(scale, scale * halves)" if has_min and split else "vec2(scale, scale * (halves.x + halves.y))" if has_min else "scale" }};
{% if (i + 1) * threads > s_all %}
        }
{% endif %}
    }
{% endfor %}
{% for i in range(w_turns) %}
    {
        let p = thread + {{ i * threads }}u;
{% if (i + 1) * threads > w_all %}
        if (p < {{ w_all }}u) {
{% endif %}
        let unit = decode(f.w{{ i }});
        let n = p / {{ step_units }}u;
        let to = p % {{ step_units }}u * {{ each }}u * RIGHT + n;
{% if blocks %}
        right[to] = {{ "signed(unit.first)" if zero else "unit.first" }};
        right[to + RIGHT] = {{ "signed(unit.second)" if zero else "unit.second" }};
        right_scales[p % {{ step_units }}u * {{ rows }}u + n] =
            {{ "vec4(unit.scale, unit.min)" if has_min and split else "vec2(unit.scale.x, unit.min.x)" if has_min else "unit.scale" if split else "unit.scale.x" }};
{% else %}
{% for j in range(each) %}
        right[to + {{ j }}u * RIGHT] = unit.v{{ j }};
{% endfor %}
{% endif %}
{% if (i + 1) * threads > w_all %}
        }
{% endif %}
    }
{% endfor %}
}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let count = pass_info[{{ count_at }}];
    // groups that share weights follow each other
{% if experts %}
    if (!choose(group.x, group.z, count)) {
        return;
    }
    let first = first_pair;
    let end = end_pair;
{% else %}
    let first = group.x * {{ batch }}u;
    let end = count;
{% endif %}
    let first_row = group.y * {{ rows }}u;
    // the thread's rows of activations and of the matrix in the tile: every so many from these on
    let line = thread / {{ across }}u;
    let column = thread % {{ across }}u;
{% for j in range(thread_batch) %}
{% for i in range(thread_rows) %}
    var sum{{ j }}_{{ i }} = 0.0;
{% if splits > 1 and not on_grid %}
    var total{{ j }}_{{ i }} = 0.0;
{% endif %}
{% endfor %}
{% endfor %}
{% if on_grid %}
    let first_step = group.z * SPLIT_STEPS;
    let end_step = min(first_step + SPLIT_STEPS, STEPS);
    let slab = group.z * {{ slab_rows }}u;
{% else %}
    let first_step = 0u;
    let end_step = STEPS;
{% endif %}
    var next = fetch_step(first_step, thread, first, count, first_row);
    for (var step = first_step; step < end_step; step++) {
        workgroupBarrier();
        keep_step(next, thread);
        workgroupBarrier();
        next = fetch_step(min(step + 1u, STEPS - 1u), thread, first, count, first_row);
{% if blocks %}
        for (var u = 0u; u < {{ step_units }}u; u++) {
{% for i in range(thread_rows) %}
            let w{{ i }}_0 = right[u * 2u * RIGHT + column + {{ i * across }}u];
            let w{{ i }}_1 = right[(u * 2u + 1u) * RIGHT + column + {{ i * across }}u];
            let ws{{ i }} = right_scales[u * {{ rows }}u + column + {{ i * across }}u];
{% endfor %}
{% for j in range(thread_batch) %}
            {
                let a0 = left[u * 2u * LEFT + line + {{ j * down }}u];
                let a1 = left[(u * 2u + 1u) * LEFT + line + {{ j * down }}u];
                let scale = left_scales[u * {{ batch }}u + line + {{ j * down }}u];
{% for i in range(thread_rows) %}
                sum{{ j }}_{{ i }} = add_product(w{{ i }}_0, w{{ i }}_1, ws{{ i }}, a0, a1, scale, sum{{ j }}_{{ i }});
{% endfor %}
            }
{% endfor %}
        }
{% else %}
        for (var p = 0u; p < {{ pieces }}u; p++) {
{% for i in range(thread_rows) %}
            let w{{ i }} = right[p * RIGHT + column + {{ i * across }}u];
{% endfor %}
{% for j in range(thread_batch) %}
            {
                let a = left[p * LEFT + line + {{ j * down }}u];
{% for i in range(thread_rows) %}
                sum{{ j }}_{{ i }} = add_product(w{{ i }}, a, sum{{ j }}_{{ i }});
{% endfor %}
            }
{% endfor %}
        }
{% endif %}
{% if splits > 1 and not on_grid %}
        if ((step + 1u) % SPLIT_STEPS == 0u || step + 1u == STEPS) {
            let is_first = step < SPLIT_STEPS;
{% for j in range(thread_batch) %}
{% for i in range(thread_rows) %}
            total{{ j }}_{{ i }} = select(total{{ j }}_{{ i }} + sum{{ j }}_{{ i }}, sum{{ j }}_{{ i }}, is_first);
            sum{{ j }}_{{ i }} = 0.0;
{% endfor %}
{% endfor %}
        }
{% endif %}
    }
{% set result = "total" if splits > 1 and not on_grid else "sum" %}
{% for j in range(thread_batch) %}
    {
        let r = first + line + {{ j * down }}u;
        if (r < end) {
            let to = {{ "y_row(r - first)" if experts else "(slab + r)" if on_grid else "r" }} * {{ stride }}u + {{ offset }}u;
{% for i in range(thread_rows) %}
            {
                let n = first_row + column + {{ i * across }}u;
                if (n < {{ matrix_rows }}u) {
                    y[to + n] = {{ "y[to + n] + " if add }}{{ result }}{{ j }}_{{ i }}{% if bias %} + bias[{{ "which * %su"|format(stride) if experts else "%su"|format(offset) }} + n]{% endif %};
                }
            }
{% endfor %}
        }
    }
{% endfor %}
}
