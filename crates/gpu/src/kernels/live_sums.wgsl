{# The results of rows of an effort below 1, from the partial sums [row][split][tile][outputs] of
   live_product.wgsl, which are added in the order of splits:
       y[r][n] = Σ_s partial (+ bias[n]) (+ y[r][n] with add)
       y[r][n] = gated(gate[n], up[n]), with glu: of the two matrices #}
const SPLITS = {{ splits }}u;
const TILES = {{ tiles }}u;
const OUT = {{ outputs }}u;

var<storage, read> partial: array<f32>;
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

// All loads are in flight at once.
fn summed(row: u32, output: u32) -> f32 {
    let first = row * SPLITS * TILES * OUT + output;
{% for s in range(splits) %}
    let of{{ s }} = partial[first + {{ s }}u * TILES * OUT];
{% endfor %}
    return 0.0{% for s in range(splits) %} + of{{ s }}{% endfor %};
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let output = group.x * {{ threads }}u + thread;
    let row = group.y;
{% if mixed %}
    // rows of effort 1 have no bit
    if (lives[{{ sides[0].lives_at }}u + row * {{ lives_step }}u] >> 31u == 0u) {
        return;
    }
{% endif %}
{% if glu %}
    if (output >= {{ sides[0].rows }}u) {
        return;
    }
    let gate = summed(row, output){{ " + bias0[output]" if sides[0].bias }};
    let up = summed(row, output + {{ sides[1].first }}u * OUT){{ " + bias1[output]" if sides[1].bias }};
    y0[row * {{ sides[0].rows }}u + output] = gated(gate, up);
{% else %}
    if (output >= {{ written_tiles }}u * OUT) {
        return;
    }
    let sum = summed(row, output);
{% for side in written %}
{% set s = loop.index0 %}
    if (output >= {{ side.first }}u * OUT && output < {{ side.first }}u * OUT + {{ side.rows }}u) {
        let n = output - {{ side.first }}u * OUT;
        let at = row * {{ side.rows }}u + n;
        y{{ s }}[at] = {{ "%s%s[at] + "|format("before" if apart else "y", s) if add }}(sum{{ " + bias%s[n]"|format(s) if side.bias }});
    }
{% endfor %}
{% endif %}
}
