{# The results of rows below 1, from the partial sums [row][split][tile][outputs] of
   live_product.wgsl, which are added in the order of splits. Each thread loads few of them, which wait in
   workgroup memory:
       y[r][n] = Σ_s partial (+ bias[n]) (+ y[r][n] with add)
       y[r][n] = gated(gate[n], up[n]), with glu: of the two matrices #}
const SPLITS = {{ splits }}u;
const TILES = {{ tiles }}u;
const OUT = {{ outputs }}u;
// outputs of a workgroup, which are of one tile
const OWN = {{ own }}u;
// vectors of partial sums of a matrix
const LOADED = {{ splits * own // 4 }}u;

var<storage, read> partial: array<vec4<f32>>;
{% if mixed %}
var<storage, read> lives: array<u32>;
{% endif %}
{% for side in written %}
var<storage, read_write> y{{ loop.index0 }}: array<f32>;
{% if apart %}
var<storage, read> before{{ loop.index0 }}: array<f32>;
{% endif %}
{% endfor %}
{% for side in sides %}
{% if side.bias %}
var<storage, read> bias{{ loop.index0 }}: array<f32>;
{% endif %}
{% endfor %}
{% if glu %}
{% include "gating.wgsl" %}
{% endif %}

var<workgroup> loaded: array<vec4<f32>, {{ (2 if glu else 1) * splits * own // 4 }}>;

fn load(row: u32, matrix: u32, output: u32, thread: u32) {
    let first = (row * SPLITS * TILES * OUT + output) / 4u;
    for (var i = thread; i < LOADED; i += {{ threads }}u) {
        loaded[matrix * LOADED + i] = partial[first + i / (OWN / 4u) * (TILES * OUT / 4u) + i % (OWN / 4u)];
    }
}

fn summed(matrix: u32, thread: u32) -> f32 {
    var sum = 0.0;
{% for s in range(splits) %}
    sum += loaded[matrix * LOADED + {{ s * own // 4 }}u + thread / 4u][thread % 4u];
{% endfor %}
    return sum;
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first_output = group.x * OWN;
    let row = group.y;
{% if mixed %}
    // full rows have no bit
    if (lives[{{ rows_at }}u + row * {{ lives_step }}u] >> 31u == 0u) {
        return;
    }
{% endif %}
    let output = first_output + thread;
{% if add %}
{% for side in written %}
{% set s = loop.index0 %}
    let n{{ s }} = min(max(output, {{ side.first }}u * OUT) - {{ side.first }}u * OUT, {{ side.rows - 1 }}u);
    let old{{ s }} = {{ "before" if apart else "y" }}{{ s }}[row * {{ side.rows }}u + n{{ s }}];
{% endfor %}
{% if waits %}
    // the phase before has not written y
    wait_for_inputs(thread);
{% endif %}
{% endif %}
    load(row, 0u, first_output, thread);
{% if glu %}
    load(row, 1u, first_output + {{ sides[1].first }}u * OUT, thread);
{% endif %}
    workgroupBarrier();
    if (thread >= OWN) {
        return;
    }
{% if glu %}
    if (output >= {{ sides[0].rows }}u) {
        return;
    }
    let gate = summed(0u, thread){{ " + bias0[output]" if sides[0].bias }};
    let up = summed(1u, thread){{ " + bias1[output]" if sides[1].bias }};
    y0[row * {{ sides[0].rows }}u + output] = gated(gate, up);
{% else %}
    let sum = summed(0u, thread);
{% for side in written %}
{% set s = loop.index0 %}
    if (output >= {{ side.first }}u * OUT && output < {{ side.first }}u * OUT + {{ side.rows }}u) {
        let n = output - {{ side.first }}u * OUT;
        let at = row * {{ side.rows }}u + n;
        y{{ s }}[at] = {{ "old%s + "|format(s) if add }}(sum{{ " + bias%s[n]"|format(s) if side.bias }});
    }
{% endfor %}
{% endif %}
}
