{# A selective scan of a state space with one decay a head (Mamba-2, arXiv 2405.21060), for each head
   with the state S [state_dim, head_dim] of its slot:
       S ← a · S + b · (Δ · x)ᵀ,  y = Sᵀc + skip · x
   Its steps Δ and factors a are those of scan_steps.wgsl. The columns of S do not depend on each other.
   A workgroup computes {{ columns }} columns of a head over all rows of a sequence in the pass, in order.
   {{ lanes }} adjacent threads hold a column in registers: a row takes one sum over them and no barrier.
   Operands of the next row are loaded before those of a row are used. The grid is slices of
   columns, heads, sequences. #}
const HEADS = {{ heads }}u;
const HEAD_DIM = {{ head_dim }}u;
const STATE_DIM = {{ state_dim }}u;
const GROUPS = {{ groups }}u;
const INNER = HEADS * HEAD_DIM;
const WIDTH = INNER + 2u * GROUPS * STATE_DIM;

var<storage, read> rows: array<vec4<u32>>;
// the rows of the pass by sequence, and the first and the number of those of each sequence
var<storage, read> order: array<u32>;
var<storage, read> sequences: array<vec2<u32>>;
// x [HEADS, HEAD_DIM], b [GROUPS, STATE_DIM] and c [GROUPS, STATE_DIM] of each row
var<storage, read> xbc: array<f32>;
var<storage, read> steps: array<vec2<f32>>;
var<storage, read_write> y: array<f32>;
var<storage, read_write> states: array<f32>;
var<storage, read> skip: array<f32>;

// The sum over the threads of a column.
fn column_sum(value: f32) -> f32 {
    var sum = value;
{% for mask in [1, 2, 4] if mask < lanes %}
    sum += subgroupShuffleXor(sum, {{ mask }}u);
{% endfor %}
    return sum;
}

{# Loads the operands of the row at `i` in the order of the sequence. #}
{% macro load(i) %}
        row = order[run.x + {{ i }}];
        let inputs = row * WIDTH + INNER + group * STATE_DIM;
{% for n in range(each) %}
{% if exact %}
        b{{ n }} = xbc[inputs + part + {{ n * lanes }}u];
        c{{ n }} = xbc[inputs + GROUPS * STATE_DIM + part + {{ n * lanes }}u];
{% else %}
        b{{ n }} = select(0.0, xbc[inputs + min(part + {{ n * lanes }}u, STATE_DIM - 1u)], part + {{ n * lanes }}u < STATE_DIM);
        c{{ n }} = select(0.0, xbc[inputs + GROUPS * STATE_DIM + min(part + {{ n * lanes }}u, STATE_DIM - 1u)], part + {{ n * lanes }}u < STATE_DIM);
{% endif %}
{% endfor %}
        value = xbc[row * WIDTH + head * HEAD_DIM + column];
        step = steps[row * HEADS + head];
{% endmacro %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) place: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let run = sequences[place.z];
    if (run.y == 0u) {
        return;
    }
    let thread = subgroup * width + lane;
    let part = thread % {{ lanes }}u;
    let own = place.x * {{ columns }}u + thread / {{ lanes }}u;
    // threads after the last column repeat it and write nothing
    let column = min(own, HEAD_DIM - 1u);
    let writes = own < HEAD_DIM;
    let head = place.y;
    let group = head / {{ heads // groups }}u;
    let own_skip = skip[head];
    let first = rows[order[run.x]];
    let goes_on = first.y > 0u;
    let state = (first.z * HEADS + head) * STATE_DIM * HEAD_DIM + column;
{% for n in range(each) %}
{% if exact %}
    var s{{ n }} = select(0.0, states[state + (part + {{ n * lanes }}u) * HEAD_DIM], goes_on);
{% else %}
    var s{{ n }} = select(0.0, states[state + min(part + {{ n * lanes }}u, STATE_DIM - 1u) * HEAD_DIM], goes_on && part + {{ n * lanes }}u < STATE_DIM);
{% endif %}
    var b{{ n }}: f32;
    var c{{ n }}: f32;
{% endfor %}
    var row: u32;
    var value: f32;
    var step: vec2<f32>;
    {
{{ load("0u") }}
    }
    for (var i = 0u; i < run.y; i++) {
{% for n in range(each) %}
        let in{{ n }} = b{{ n }};
        let out{{ n }} = c{{ n }};
{% endfor %}
        let own_value = value;
        let own_row = row;
        let factor = step.y;
        let input = step.x * value;
        if (i + 1u < run.y) {
{{ load("i + 1u") }}
        }
        var result = 0.0;
{% for n in range(each) %}
        s{{ n }} = fma(in{{ n }}, input, s{{ n }} * factor);
        result = fma(s{{ n }}, out{{ n }}, result);
{% endfor %}
        result = column_sum(result);
        if (part == 0u && writes) {
            y[own_row * INNER + head * HEAD_DIM + column] = fma(own_skip, own_value, result);
        }
    }
    if (writes) {
{% for n in range(each) %}
{% if exact %}
        states[state + (part + {{ n * lanes }}u) * HEAD_DIM] = s{{ n }};
{% else %}
        if (part + {{ n * lanes }}u < STATE_DIM) {
            states[state + (part + {{ n * lanes }}u) * HEAD_DIM] = s{{ n }};
        }
{% endif %}
{% endfor %}
    }
}
