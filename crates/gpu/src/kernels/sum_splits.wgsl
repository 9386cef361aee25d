{# The results of a product from the partial sums [s][r][n] of its K splits:
       y[r][n] = Σ_s partial[s][r][n] (+ y[r][n] with add) (+ bias[n])
       y[r][n] = gate[n] · up[n], with glu: a gated product of the halves of the sums' row
   With `activation`, y is the function of that. Several parts have a y and a bias each, and follow each other in the sums' row. With `halves` y is
   in f16, for products on matrix cores. A thread computes an element, a vector of four where all
   lengths are multiples of four; the grid's y is the row. Lengths count elements of a thread. #}
alias Element = {{ element }};
const TOTAL = {{ total }}u;
const WIDTH = {{ width }}u;

var<storage, read> partial: array<Element>;
{% for part in parts %}
{% set i = loop.index0 %}
var<storage, read_write> y{{ i }}: array<{{ "vec2<u32>" if halves else "Element" }}>;
{% if part.bias %}
var<storage, read> bias{{ i }}: array<Element>;
{% endif %}
{% endfor %}
{% if glu %}
{% include "gating.wgsl" %}
{% elif activation %}
{% with element="Element" %}
{% include "activation.wgsl" %}
{% endwith %}
{% endif %}
{% if halves %}
{% include "half_range.wgsl" %}
{% endif %}

fn summed(row: u32, n: u32) -> Element {
    let at = row * TOTAL + n;
    var sum = partial[at];
{% for s in range(1, splits) %}
    sum += partial[{{ s * slab_rows }}u * TOTAL + at];
{% endfor %}
    return sum;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= WIDTH) {
        return;
    }
{% if glu %}
    let value = gated(summed(id.y, id.x), summed(id.y, WIDTH + id.x));
    y0[id.y * WIDTH + id.x] = {{ "halved(value)" if halves else "value" }};
{% else %}
    let sum = summed(id.y, id.x);
{% for part in parts %}
{% set i = loop.index0 %}
    if (id.x >= {{ part.first }}u && id.x < {{ part.first + part.rows }}u) {
        let n = id.x - {{ part.first }}u;
        let at = id.y * {{ part.rows }}u + n;
        let value = {{ "y%s[at] + "|format(i) if add }}sum{{ " + bias%s[n]"|format(i) if part.bias }};
{% set result = "activated(value)" if activation else "value" %}
        y{{ i }}[at] = {{ "halved(%s)"|format(result) if halves else result }};
    }
{% endfor %}
{% endif %}
}
