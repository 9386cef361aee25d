{# Packs the operands of a linear attention into one buffer, for devices whose kernels bind few buffers.
   It writes the factors of the state, e^(rate · softplus(alpha + shift)), in place of alpha. A workgroup
   packs a row; the grid is one workgroup for each row. #}
const KEY_HEADS = {{ key_heads }}u;
const VALUE_HEADS = {{ value_heads }}u;
const KEY_DIM = {{ key_dim }}u;
const VALUE_DIM = {{ value_dim }}u;
{% include "delta_layout.wgsl" %}

var<storage, read> q: array<f32>;
var<storage, read> k: array<f32>;
var<storage, read> v: array<f32>;
var<storage, read> alpha: array<f32>;
var<storage, read> beta: array<f32>;
var<storage, read> rate: array<f32>;
var<storage, read> shift: array<f32>;
var<storage, read_write> operands: array<f32>;
{% include "softplus.wgsl" %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.x;
    let begin = row * STRIDE;
    for (var i = thread; i < KEYS; i += {{ threads }}u) {
        operands[begin + i] = k[row * KEYS + i];
        operands[begin + KEYS + i] = q[row * KEYS + i];
    }
    for (var i = thread; i < FACTORS - VALUES; i += {{ threads }}u) {
        operands[begin + VALUES + i] = v[row * (FACTORS - VALUES) + i];
    }
    for (var i = thread; i < VALUE_HEADS; i += {{ threads }}u) {
        let decay = softplus(alpha[row * VALUE_HEADS + i] + shift[i]);
        operands[begin + FACTORS + i] = exp(rate[i] * decay);
        operands[begin + FACTORS + VALUE_HEADS + i] = beta[row * VALUE_HEADS + i];
    }
}
