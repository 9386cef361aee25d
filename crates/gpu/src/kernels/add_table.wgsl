{# x[r] += a row of a table, that of the row's position or token type or a fixed one, if this shard of the table has
   it. A thread decodes a unit. #}
const K = {{ k }}u;
const UNITS = {{ units }}u;

var<storage, read> rows: array<vec4<u32>>;
var<storage, read_write> x: array<f32>;
{% set w = 0 %}
{% include family %}
{% include "formats/values.wgsl" %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let unit = id.x;
    let at = {{ row }};
    if (unit >= UNITS || at < {{ first }}u || at >= {{ first + rows }}u) {
        return;
    }
    let u = decode(fetch0(at - {{ first }}u, unit));
{% for j in range(unit // 4) %}
    let v{{ j }} = values(u, {{ j }}u);
{% for i in range(4) %}
    if (unit * {{ unit }}u + {{ j * 4 + i }}u < K) {
        x[id.y * K + unit * {{ unit }}u + {{ j * 4 + i }}u] += v{{ j }}[{{ i }}];
    }
{% endfor %}
{% endfor %}
}
