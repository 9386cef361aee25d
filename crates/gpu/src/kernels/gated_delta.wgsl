{# A linear attention with a recurrent state (gated delta rule, arXiv 2412.06464), for each value head
   with the state S [key_dim, value_dim] of its slot:
       S ← e^g · S,  e = sigmoid(beta) · (v − Sᵀk),  S ← S + k·eᵀ,  o = Sᵀq / √key_dim
   The columns of S do not depend on each other. A workgroup computes {{ columns }} columns of a head
   over all rows of a sequence in the pass, one after the other; {{ lanes }} adjacent threads hold a
   column in registers, so a row takes two sums over them and no barrier. Operands of the next row are
   loaded before those of a row are used. The grid is slices of columns, heads, sequences. With `packed`
   the operands of a row are in one buffer, as delta_operands.wgsl writes them. #}
const KEY_HEADS = {{ key_heads }}u;
const VALUE_HEADS = {{ value_heads }}u;
const KEY_DIM = {{ key_dim }}u;
const VALUE_DIM = {{ value_dim }}u;
{% if packed %}
{% include "delta_layout.wgsl" %}
{% endif %}

var<storage, read> rows: array<vec4<u32>>;
// the rows of the pass by sequence, and the first and the number of those of each sequence
var<storage, read> order: array<u32>;
var<storage, read> sequences: array<vec2<u32>>;
{% if packed %}
var<storage, read> operands: array<f32>;
var<storage, read_write> o: array<f32>;
var<storage, read_write> states: array<f32>;
{% else %}
var<storage, read> q: array<f32>;
var<storage, read> k: array<f32>;
var<storage, read> v: array<f32>;
var<storage, read> alpha: array<f32>;
var<storage, read> beta: array<f32>;
var<storage, read_write> o: array<f32>;
var<storage, read_write> states: array<f32>;
var<storage, read> rate: array<f32>;
var<storage, read> shift: array<f32>;
{% include "softplus.wgsl" %}
{% endif %}
{# The places of a row's operands. #}
{% macro key(place) %}{{ "operands[keys + %s]"|format(place) if packed else "k[keys + %s]"|format(place) }}{% endmacro %}
{% macro query(place) %}{{ "operands[keys + KEYS + %s]"|format(place) if packed else "q[keys + %s]"|format(place) }}{% endmacro %}

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
{% if packed %}
        let own = row * STRIDE;
        let keys = own + key_head * KEY_DIM;
{% else %}
        let keys = (row * KEY_HEADS + key_head) * KEY_DIM;
{% endif %}
{% for n in range(each) %}
{% if exact %}
{% set place = "part + %su"|format(n * lanes) %}
        k{{ n }} = {{ key(place) }};
        q{{ n }} = {{ query(place) }};
{% else %}
{% set place = "min(part + %su, KEY_DIM - 1u)"|format(n * lanes) %}
        k{{ n }} = select(0.0, {{ key(place) }}, part + {{ n * lanes }}u < KEY_DIM);
        q{{ n }} = select(0.0, {{ query(place) }}, part + {{ n * lanes }}u < KEY_DIM);
{% endif %}
{% endfor %}
{% if packed %}
        value = operands[own + VALUES + head * VALUE_DIM + column];
        decay = operands[own + FACTORS + head];
        gate = operands[own + FACTORS + VALUE_HEADS + head];
{% else %}
        value = v[(row * VALUE_HEADS + head) * VALUE_DIM + column];
        decay = alpha[row * VALUE_HEADS + head];
        gate = beta[row * VALUE_HEADS + head];
{% endif %}
{% endmacro %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let run = sequences[group.z];
    if (run.y == 0u) {
        return;
    }
    let thread = subgroup * width + lane;
    let part = thread % {{ lanes }}u;
    let place = group.x * {{ columns }}u + thread / {{ lanes }}u;
    // threads after the last column repeat it and write nothing
    let column = min(place, VALUE_DIM - 1u);
    let writes = place < VALUE_DIM;
    let head = group.y;
    let key_head = {{ "head / %su"|format(value_heads // key_heads) if grouped else "head % KEY_HEADS" }};
{% if not packed %}
    let own_rate = rate[head];
    let own_shift = shift[head];
{% endif %}
    let first = rows[order[run.x]];
    let goes_on = first.y > 0u;
    let state = (first.z * VALUE_HEADS + head) * KEY_DIM * VALUE_DIM + column;
{% for n in range(each) %}
{% set inside = "part + %su < KEY_DIM"|format(n * lanes) %}
{% if exact %}
    var s{{ n }} = select(0.0, states[state + (part + {{ n * lanes }}u) * VALUE_DIM], goes_on);
{% else %}
    var s{{ n }} = select(0.0, states[state + min(part + {{ n * lanes }}u, KEY_DIM - 1u) * VALUE_DIM], goes_on && {{ inside }});
{% endif %}
    var k{{ n }}: f32;
    var q{{ n }}: f32;
{% endfor %}
    var row: u32;
    var value: f32;
    var decay: f32;
    var gate: f32;
    {
{{ load("0u") }}
    }
    for (var i = 0u; i < run.y; i++) {
{% for n in range(each) %}
        let key{{ n }} = k{{ n }};
        let query{{ n }} = q{{ n }};
{% endfor %}
        let own_value = value;
        let own_row = row;
{% if packed %}
        let factor = decay;
{% else %}
        let factor = exp(own_rate * softplus(decay + own_shift));
{% endif %}
        let strength = 1.0 / (1.0 + exp(-gate));
        if (i + 1u < run.y) {
{{ load("i + 1u") }}
        }
        var product = 0.0;
{% for n in range(each) %}
        s{{ n }} *= factor;
        product = fma(s{{ n }}, key{{ n }}, product);
{% endfor %}
        let error = strength * (own_value - column_sum(product));
        var result = 0.0;
{% for n in range(each) %}
        s{{ n }} = fma(key{{ n }}, error, s{{ n }});
        result = fma(s{{ n }}, query{{ n }}, result);
{% endfor %}
        result = column_sum(result);
        if (part == 0u && writes) {
            o[(own_row * VALUE_HEADS + head) * VALUE_DIM + column] = result * {{ scale }};
        }
    }
    if (writes) {
{% for n in range(each) %}
{% if exact %}
        states[state + (part + {{ n * lanes }}u) * VALUE_DIM] = s{{ n }};
{% else %}
        if (part + {{ n * lanes }}u < KEY_DIM) {
            states[state + (part + {{ n * lanes }}u) * VALUE_DIM] = s{{ n }};
        }
{% endif %}
{% endfor %}
    }
}
