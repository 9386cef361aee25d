{# Elementwise ops: add (x += y), glu (g = silu(gate) · up), select (y[r] = x[selected[r]]). A thread
   computes one element; the grid's y is the row. #}
const WIDTH = {{ width }}u;

{% if op == "add" %}
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read> y: array<f32>;
{% elif op == "glu" %}
@group(0) @binding(0) var<storage, read> gate: array<f32>;
@group(0) @binding(1) var<storage, read> up: array<f32>;
@group(0) @binding(2) var<storage, read_write> g: array<f32>;
{% elif op == "glu_in_place" %}
@group(0) @binding(0) var<storage, read_write> gate: array<f32>;
@group(0) @binding(1) var<storage, read> up: array<f32>;
{% else %}
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> selected: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
{% endif %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= WIDTH) {
        return;
    }
    let i = id.y * WIDTH + id.x;
{% if op == "add" %}
    x[i] += y[i];
{% elif op == "glu" %}
    g[i] = gate[i] / (1.0 + exp(-gate[i])) * up[i];
{% elif op == "glu_in_place" %}
    gate[i] = gate[i] / (1.0 + exp(-gate[i])) * up[i];
{% else %}
    y[i] = x[selected[id.y] * WIDTH + id.x];
{% endif %}
}
