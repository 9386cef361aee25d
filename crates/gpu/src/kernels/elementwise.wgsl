{# Ops on single elements of rows:
       add            x += y
       glu            g = activation(gate) · up, or another gated product; g may be gate or up
       select         y[r] = x[selected[r]]
       activate       x = activation(x)
       scale          x *= factor
       softcap        x = cap · tanh(x / cap)
       clamp          x between two bounds, of which one may be missing
       xielu          x = the activation xIELU with factors
       inject         x = the slice of the row's embedding, or x += it; other rows keep theirs
       temper         x *= 1 + beta · ln(1 + ⌊(position + offset) / interval⌋)
       expert_scale   x[s] *= factors[ids[s]]
       expert_sum     y = Σ_s weights[s] · x[s], or y += … with add
       adapters       the ids and weights of the adapters of the row's slot
       copy           a strided copy of groups of elements
   A thread computes an element, a vector of four where the width is a multiple of four; the grid's y
   is the row. WIDTH counts elements of a thread. #}
const WIDTH = {{ width }}u;
alias Element = {{ element }};

{% if op == "add" %}
var<storage, read_write> x: array<Element>;
var<storage, read> y: array<Element>;
{% elif op == "glu" %}
var<storage, {{ "read_write" if to == "gate" else "read" }}> gate: array<{{ "f32" if gates else "Element" }}>;
var<storage, {{ "read_write" if to == "up" else "read" }}> up: array<Element>;
{% if to == "g" %}
var<storage, read_write> g: array<Element>;
{% endif %}
{% include "gating.wgsl" %}
{% elif op == "select" %}
var<storage, read> x: array<Element>;
var<storage, read> selected: array<u32>;
var<storage, read_write> y: array<Element>;
{% elif op in ["activate", "scale", "softcap", "clamp", "xielu"] %}
var<storage, read_write> x: array<Element>;
{% if op in ["activate", "softcap"] %}
{% include "activation.wgsl" %}
{% endif %}
{% elif op == "inject" %}
var<storage, read> places: array<vec4<u32>>;
var<storage, read> embeddings: array<Element>;
var<storage, read_write> x: array<Element>;
{% elif op == "temper" %}
var<storage, read> rows: array<vec4<u32>>;
var<storage, read_write> x: array<Element>;
{% elif op == "adapters" %}
var<storage, read> rows: array<vec4<u32>>;
var<storage, read> adapters: array<f32>;
var<storage, read_write> ids: array<f32>;
var<storage, read_write> weights: array<f32>;
{% elif op == "expert_scale" %}
var<storage, read_write> x: array<Element>;
var<storage, read> ids: array<f32>;
var<storage, read> factors: array<f32>;
{% elif op == "expert_sum" %}
var<storage, read> x: array<Element>;
var<storage, read> weights: array<f32>;
var<storage, read_write> y: array<Element>;
{% else %}
var<storage, read> x: array<Element>;
var<storage, read_write> y: array<Element>;
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
    {{ to }}[i] = gated({% if gates %}Element(gate[id.y * {{ gates }}u + id.x / {{ neighbours }}u]){% else %}gate[i]{% endif %}, up[i]);
{% elif op == "select" %}
    y[i] = x[selected[id.y] * WIDTH + id.x];
{% elif op == "activate" %}
    x[i] = activated(x[i]);
{% elif op == "scale" %}
    x[i] *= {{ factor }};
{% elif op == "softcap" %}
    x[i] = {{ cap }} * activated(x[i] / {{ cap }});
{% elif op == "clamp" %}
{% if low %}
    x[i] = max(x[i], Element({{ low }}));
{% endif %}
{% if high %}
    x[i] = min(x[i], Element({{ high }}));
{% endif %}
{% elif op == "xielu" %}
    let v = x[i];
    let below = {{ negative }} * (exp(min(v, Element({{ bound }}))) - 1.0 - v);
    x[i] = {{ linear }} * v + select(below, {{ positive }} * v * v, v > Element(0.0));
{% elif op == "inject" %}
    // one more than its index
    let embedding = places[2u * id.y].w;
    if (embedding > 0u) {
        x[i] {{ "+=" if adds else "=" }} embeddings[((embedding - 1u) * {{ slices }}u + {{ slice }}u) * WIDTH + id.x];
    }
{% elif op == "temper" %}
    let steps = (rows[id.y].y + {{ offset }}u) / {{ interval }}u;
    x[i] *= 1.0 + {{ beta }} * log(1.0 + f32(steps));
{% elif op == "adapters" %}
    let at = rows[id.y].z * (2u * WIDTH) + id.x;
    ids[i] = adapters[at];
    weights[i] = adapters[at + WIDTH];
{% elif op == "expert_scale" %}
    x[i] *= factors[u32(ids[id.y * {{ used }}u + id.x / {{ of_one }}u])];
{% elif op == "expert_sum" %}
    // in the order of the chosen experts
    var sum = Element(0.0);
    for (var s = 0u; s < {{ used }}u; s++) {
        let at = id.y * {{ used }}u + s;
        sum = fma(Element(weights[at]), x[at * WIDTH + id.x], sum);
    }
    y[i] {{ "+=" if add else "=" }} sum;
{% else %}
    let group = id.x / {{ group }}u;
    let within = id.x % {{ group }}u;
    y[id.y * {{ to_width }}u + {{ to_offset }}u + group * {{ to_stride }}u + within] =
        x[id.y * {{ from_width }}u + {{ from_offset }}u + group * {{ from_stride }}u + within];
{% endif %}
}
