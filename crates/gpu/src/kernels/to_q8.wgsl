{# Activations in 8 bits for matvec_rows.wgsl, and the factor of a norm before them. A workgroup
   takes a row, and its threads sum the norm's squares as those of matvec.wgsl do. #}
const K = {{ k }}u;
const UNITS = {{ units }}u;
const CHUNK = UNITS;
const THREADS = {{ threads }}u;

var<storage, read> x: array<vec4<f32>>;
// halves h of unit u of row r at (r · 2 + h) · UNITS + u, four words each
var<storage, read_write> codes: array<u32>;
// scale, and the sums of the halves' codes in 16 bits each
var<storage, read_write> scales: array<vec2<f32>>;
{% if norm %}
var<storage, read_write> factors: array<f32>;
var<storage, read> norm_weight: array<vec4<f32>>;

var<workgroup> squares: array<f32, {{ subgroups }}>;
{% include "squares.wgsl" %}
{% endif %}

fn keep_code(row: u32, unit: u32, word: u32, code: u32) {
    codes[((row * 2u + word / 4u) * UNITS + unit) * 4u + word % 4u] = code;
}

fn keep_scale(row: u32, unit: u32, value: vec2<f32>) {
    scales[row * UNITS + unit] = value;
}

{% set own = 8 // share %}
{% include "quantize.wgsl" %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let thread = subgroup * width + lane;
    let row = {{ "group.x * %su + group.y"|format(per_row) if per_row > 1 else "group.x" }};
    let sum = prepare(row, row, 0u, thread);
{% if norm %}
    note_squares(0u, sum, subgroup, lane);
    workgroupBarrier();
    if (thread == 0u) {
        factors[row] = factor(0u, subgroups);
    }
{% endif %}
}
