{# The results of products with sorted buckets, of rows of an effort below 1, from the partial sums
   [row][tile][split][512] of bucket_product.wgsl:
       y[r][n] = factor · Σ_s partial (+ y[r][n] with add) (+ bias[n])
       y[r][n] = gate[n] · up[n], with glu: a gated product of the two matrices
   A thread adds a part of the splits of four sums in their order; parts are added in order too. A workgroup
   has {{ quads }} times four sums in {{ parts }} parts. #}
const SPLITS = {{ splits }}u;
const TILES = {{ tiles }}u;
const QUADS = {{ quads }}u;

var<storage, read> partial: array<vec4<f32>>;
var<storage, read> lives: array<u32>;
var<storage, read> cutoffs: array<vec2<u32>>;
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

var<workgroup> sums: array<vec4<f32>, {{ threads }}>;

// The sums of a quad of a tile, in the threads of the first part.
fn summed(row: u32, tile: u32, quad: u32, part: u32, thread: u32) -> vec4<f32> {
    let at = (row * TILES + tile) * SPLITS * 128u + quad;
    var sum = vec4(0.0);
{% for s in range(part) %}
    if (part * {{ part }}u + {{ s }}u < SPLITS) {
        sum += partial[at + (part * {{ part }}u + {{ s }}u) * 128u];
    }
{% endfor %}
    sums[thread] = sum;
    workgroupBarrier();
    var all = vec4(0.0);
{% for p in range(parts) %}
    all += sums[{{ p }}u * QUADS + thread % QUADS];
{% endfor %}
    workgroupBarrier();
    return all;
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.y;
    if (lives[{{ rows_at }}u + row * {{ lives_step }}u] >> 31u == 0u) {
        return;
    }
    let tile_of_all = group.x / {{ 128 // quads }}u;
    let quad = group.x % {{ 128 // quads }}u * QUADS + thread % QUADS;
    let part = thread / QUADS;
    var side = 0u;
    var tile = tile_of_all;
{% if not glu %}
{% for side in sides[1:] %}
    if (tile_of_all >= {{ side.first }}u) {
        side = {{ loop.index }}u;
        tile = tile_of_all - {{ side.first }}u;
    }
{% endfor %}
{% endif %}
    let factor = bitcast<f32>(cutoffs[row * {{ sides | length }}u + side].y);
    let sum = summed(row, tile_of_all, quad, part, thread) * factor;
{% if glu %}
    let up = summed(row, tile_of_all + {{ sides[1].first }}u, quad, part, thread) * factor;
{% endif %}
    if (part > 0u) {
        return;
    }
    // sums are [position, bucket of two, 16]
    let slot = quad * 4u;
    let first = tile * 512u + (slot / 16u % 2u + slot % 16u * 2u) * 16u + slot / 32u;
{% for i in range(4) %}
{% set of = "." ~ ["x", "y", "z", "w"][i] %}
{% for side in written %}
{% set s = loop.index0 %}
    if ({{ "side == %su && "|format(s) if written | length > 1 }}first + {{ 32 * i }}u < {{ side.rows }}u) {
        let n = first + {{ 32 * i }}u;
        let at = row * {{ side.rows }}u + n;
{% if glu %}
        y0[at] = gated(sum{{ of }}{{ " + bias0[n]" if sides[0].bias }}, up{{ of }}{{ " + bias1[n]" if sides[1].bias }});
{% else %}
        y{{ s }}[at] = {{ "%s%s[at] + "|format("before" if apart else "y", s) if add }}(sum{{ of }}{{ " + bias%s[n]"|format(s) if side.bias }});
{% endif %}
    }
{% endfor %}
{% endfor %}
}
