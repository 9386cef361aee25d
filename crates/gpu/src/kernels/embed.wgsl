{# x[r] = the row of the table for the token of row r, if this shard of the table has it. The token is
   known, or it is the one that was sampled for the row's position. Known tokens are written to the
   slot's ring of recent tokens. A thread decodes a unit. #}
const K = {{ k }}u;
const UNITS = {{ units }}u;

var<storage, read> rows: array<vec4<u32>>;
var<storage, read_write> recent: array<u32>;
var<storage, read> pass_info: array<u32>;
var<storage, read_write> x: array<f32>;
{% set w = 0 %}
{% include family %}
{% include "formats/values.wgsl" %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let unit = id.x;
    let row = rows[id.y];
    let at = row.z * {{ recent }}u + row.y % {{ recent }}u;
    let is_sampled = row.x == 0xffffffffu;
    var token = row.x;
    if (is_sampled) {
        token = recent[at];
    } else if (unit == 0u) {
        // the last of the rows of a slot with the same index of the ring writes
        let next = id.y + {{ recent }}u;
        if (next >= pass_info[0] || rows[min(next, pass_info[0] - 1u)].z != row.z) {
            recent[at] = token;
        }
    }
{% if types is not none %}
    token %= {{ types }}u;
{% endif %}
    if (unit >= UNITS || token < {{ first }}u || token >= {{ first + rows }}u) {
        return;
    }
    let u = decode(fetch0(token - {{ first }}u, unit));
{% for j in range(unit // 4) %}
    let v{{ j }} = values(u, {{ j }}u);
{% for i in range(4) %}
    if (unit * {{ unit }}u + {{ j * 4 + i }}u < K) {
        x[id.y * K + unit * {{ unit }}u + {{ j * 4 + i }}u] = v{{ j }}[{{ i }}];
    }
{% endfor %}
{% endfor %}
}
