{# y[r][n] = the sum of the partial sums [s][r][n] of K splits, plus what is there (with add) and a
   bias. A thread takes one element; y of the grid is the row. #}
const N = {{ n }}u;

@group(0) @binding(0) var<storage, read> partial: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
{% if bias %}
@group(0) @binding(2) var<storage, read> bias: array<f32>;
{% endif %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= N) {
        return;
    }
    let at = id.y * N + id.x;
    var sum = partial[at];
{% for s in range(1, splits) %}
    sum += partial[{{ s * slab_rows }}u * N + at];
{% endfor %}
    y[at] = {{ "y[at] + " if add }}sum{{ " + bias[id.x]" if bias }};
}
