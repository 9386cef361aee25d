{# A matrix product for many rows of activations, on matrix cores:
       y[r][n] = Σ_k W[n][k] · a[r][k] (+ bias[n])
       y[r][n] += …                                      with add
       y[r][n] = activated(…)                            with activation
       y[s][r][n] = partial sums of K split s            with splits
   With `experts` there are several matrices, of which a workgroup chooses one (experts.wgsl). With
   several `parts` there are as many matrices, whose outputs follow each other in a row of y, or with `own_y`
   are buffers of their own.
   A workgroup makes a tile of y, `batch` rows of activations by `rows` rows of the matrix, and each
   of its subgroups a patch of that. Both operands pass through workgroup memory, `step` numbers
   deep, where the weights arrive decoded; while one step is multiplied the next is on its way to
   registers. Products of `core` × `core` × `core` are f16 summed in f32:
       sums (r, n) += left (r, k) · right (k, n)
   The tile of `a` is the left operand by rows (coopLoadT); that of W has k innermost too, so it is
   the right operand by columns (coopLoad). #}
enable f16;
enable wgpu_cooperative_matrix;
{% if varying or straight %}
// the conditions that a subgroup has a patch, and y the rows of a matrix, are the same in all of its threads
diagnostic(off, derivative_uniformity);
{% endif %}

const UNITS = {{ units }}u;
// halves in an element of the tiles
{% set element = "vec4<f16>" if wide == 4 else "f16" %}
// elements between rows of a tile: with 16 bytes more than `step` halves, eight rows that are read
// together lie in different banks
const STRIDE = {{ (step + 8) // wide }}u;

var<storage, read> a: array<vec4<f16>>;
var<storage, read_write> y: array<f32>;
var<storage, read> pass_info: array<u32>;
{% if own_y %}
{% for part in parts[1:] %}
var<storage, read_write> y{{ loop.index }}: array<f32>;
{% if bias %}
var<storage, read> bias{{ loop.index }}: array<f32>;
{% endif %}
{% endfor %}
{% endif %}
{% if bias %}
var<storage, read> bias: array<f32>;
{% endif %}
{% if activation %}
{% with element="f32" %}
{% include "activation.wgsl" %}
{% endwith %}
{% endif %}
{% if experts %}
{% include "experts.wgsl" %}
{% endif %}
{% for matrix in matrices %}
{% set w = loop.index0 %}
{% with kind=matrix.kind, defines=matrix.defines, format=matrix.of.format,
    low_type=matrix.of.low_type, low_bits=matrix.of.low_bits, high_bits=matrix.of.high_bits,
    high_bytes=matrix.of.high_bytes, entry=matrix.of.entry,
    scales=matrix.of.scales,
    zero=matrix.of.zero, has_min=matrix.of.has_min, levels=matrix.of.levels,
    sub_bytes=matrix.of.sub_bytes, d_shift=matrix.of.d_shift, joined=matrix.of.joined %}
{% include family %}
{% if defines %}
{% include "formats/halves.wgsl" %}
{% endif %}
{% endwith %}
{% endfor %}
{% set several = parts | length > 1 %}

var<workgroup> left: array<{{ element }}, {{ batch * (step + 8) // wide }}>;
var<workgroup> right: array<{{ element }}, {{ rows * (step + 8) // wide }}>;
{% set staged_stride = core + 4 %}
{% if not straight %}
// one product of each subgroup, on its way to y
var<workgroup> staged: array<f32, {{ subgroups * core * staged_stride }}>;
{% endif %}

{# Writes four halves to a tile, at element `at` and `more` elements on. #}
{% macro keep(tile, at, more, value) %}
{% if wide == 4 %}
    {{ tile }}[{{ at }} + {{ more }}u] = {{ value }};
{% else %}
{% for c in ["x", "y", "z", "w"] %}
    {{ tile }}[{{ at }} + {{ more * 4 + loop.index0 }}u] = {{ value }}.{{ c }};
{% endfor %}
{% endif %}
{% endmacro %}

{# Sixteen bytes of `a`, and units of W: how many of them a step has, and a thread takes. #}
{% set pieces = batch * step // 8 %}
{% set turns = (pieces + threads - 1) // threads %}
{% set across = step // 8 %}
{% set w_pieces = rows * step // unit %}
{% set w_turns = (w_pieces + threads - 1) // threads %}
{% set w_across = step // unit %}
// The operands of one step that a thread brings.
struct Fetched {
{% for i in range(turns) %}
    a{{ i }}: vec4<f16>,
    b{{ i }}: vec4<f16>,
{% endfor %}
{% for kind in kinds %}
{% for i in range(w_turns) %}
    w{{ i }}{{ kind.name }}: Raw{{ kind.name }},
{% endfor %}
{% endfor %}
}

// The matrix of a workgroup: its index, its rows, its first output, and the workgroup's first row.
struct Part {
    index: u32,
    rows: u32,
    offset: u32,
    first_row: u32,
}

// Rows after the last repeat it: they are not written to y. Units after a row's last repeat it, and
// meet zeros of `a`.
fn fetch_step(step: u32, thread: u32, first: u32, count: u32, part: Part) -> Fetched {
{% for i in range(turns) %}
    let p{{ i }} = thread + {{ i * threads }}u;
    let at{{ i }} = {{ "x_row(p%s / %su)"|format(i, across) if experts else "min(first + p%s / %su, count - 1u)"|format(i, across) }} * {{ padded // 4 }}u
        + (step * {{ across }}u + p{{ i }} % {{ across }}u) * 2u;
{% endfor %}
{% for i in range(w_turns) %}
    let q{{ i }} = thread + {{ i * threads }}u;
    let row{{ i }} = min(part.first_row + q{{ i }} / {{ w_across }}u, part.rows - 1u);
    let unit{{ i }} = {{ "min(" if units % w_across }}step * {{ w_across }}u + q{{ i }} % {{ w_across }}u{{ ", UNITS - 1u)" if units % w_across }};
{% endfor %}
    var fetched: Fetched;
{% for i in range(turns) %}
    fetched.a{{ i }} = a[at{{ i }}];
    fetched.b{{ i }} = a[at{{ i }} + 1u];
{% endfor %}
{% for matrix in matrices %}
{% set w = loop.index0 %}
{% if several %}
    if (part.index == {{ w }}u) {
{% endif %}
{% for i in range(w_turns) %}
    fetched.w{{ i }}{{ matrix.kind }} = fetch{{ w }}({{ "base_row + " if experts }}row{{ i }}, unit{{ i }});
{% endfor %}
{% if several %}
    }
{% endif %}
{% endfor %}
    return fetched;
}

fn keep_step(f: Fetched, thread: u32, part: Part) {
{% for i in range(turns) %}
    let p{{ i }} = thread + {{ i * threads }}u;
{% if (i + 1) * threads > pieces %}
    if (p{{ i }} < {{ pieces }}u) {
{% endif %}
    let at{{ i }} = p{{ i }} / {{ across }}u * STRIDE + p{{ i }} % {{ across }}u * {{ 8 // wide }}u;
{{ keep("left", "at" ~ i, 0, "f.a" ~ i) -}}
{{ keep("left", "at" ~ i, 1, "f.b" ~ i) -}}
{% if (i + 1) * threads > pieces %}
    }
{% endif %}
{% endfor %}
{% for kind in kinds %}
{% if kinds | length > 1 %}
    if ({{ kind.when }}) {
{% endif %}
{% for i in range(w_turns) %}
    let q{{ i }} = thread + {{ i * threads }}u;
{% if (i + 1) * threads > w_pieces %}
    if (q{{ i }} < {{ w_pieces }}u) {
{% endif %}
    let u{{ i }} = decode{{ kind.name }}(f.w{{ i }}{{ kind.name }});
    let to{{ i }} = q{{ i }} / {{ w_across }}u * STRIDE + q{{ i }} % {{ w_across }}u * {{ unit // wide }}u;
{% for j in range(unit // 4) %}
    let v{{ i }}_{{ j }} = halves{{ j }}{{ kind.name }}(u{{ i }});
{{ keep("right", "to" ~ i, j, "v" ~ i ~ "_" ~ j) -}}
{% endfor %}
{% if (i + 1) * threads > w_pieces %}
    }
{% endif %}
{% endfor %}
{% if kinds | length > 1 %}
    }
{% endif %}
{% endfor %}
}

{% set matrix = "coop_mat" ~ core ~ "x" ~ core %}
@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
{% if varying %}
    @builtin(subgroup_size) width: u32,
{% endif %}
) {
    let thread = subgroup * {{ "width" if varying else "%su"|format(lanes) }} + lane;
    let count = pass_info[{{ count_at }}];
    // groups that share weights follow each other
{% if experts %}
    // naga must see that the conditions are uniform to allow matrix cores after them: they are
    // neither of private variables nor evaluated in part
{% if experts.pick == "sorted" %}
    let chosen = tiles[group.x];
    let elsewhere = (chosen.x < {{ experts.first }}u) | (chosen.x >= {{ experts.end }}u);
    if (elsewhere | (chosen.y >= chosen.z)) {
        return;
    }
{% else %}
    if ((group.z < {{ experts.first }}u) | (group.z >= {{ experts.end }}u)) {
        return;
    }
{% endif %}
    _ = choose(group.x, group.z, count);
    let first = first_pair;
{% else %}
    let first = group.x * {{ batch }}u;
{% endif %}
    var part = Part(0u, {{ parts[0].rows }}u, {{ offset }}u, group.y * {{ rows }}u);
{% for part in parts %}
{% if loop.index0 > 0 %}
    if (group.y >= {{ part.first }}u) {
        part = Part({{ loop.index0 }}u, {{ part.rows }}u, {{ part.offset }}u, (group.y - {{ part.first }}u) * {{ rows }}u);
    }
{% endif %}
{% endfor %}
    // the subgroup's patch in the tile
    let patch_first = subgroup / {{ rows // patch_rows }}u * {{ patch_batch }}u;
    let patch_row = subgroup % {{ rows // patch_rows }}u * {{ patch_rows }}u;
{% if splits > 1 %}
    let first_step = group.z * {{ split_steps }}u;
    let end_step = min(first_step + {{ split_steps }}u, {{ padded // step }}u);
    let slab = group.z * {{ slab_rows }}u;
{% else %}
    let first_step = 0u;
    let end_step = {{ padded // step }}u;
    let slab = 0u;
{% endif %}
    var next = fetch_step(first_step, thread, first, count, part);
{% for i in range(patch_batch // core) %}
{% for j in range(patch_rows // core) %}
    var sums{{ i }}_{{ j }} = {{ matrix }}<f32, C>();
{% endfor %}
{% endfor %}
    for (var step = first_step; step < end_step; step++) {
        workgroupBarrier();
        keep_step(next, thread, part);
        workgroupBarrier();
        next = fetch_step(min(step + 1u, {{ padded // step - 1 }}u), thread, first, count, part);
{% if varying %}
        if (subgroup < {{ subgroups }}u) {
{% endif %}
{% for k in range(step // core) %}
{% for i in range(patch_batch // core) %}
        let l{{ k }}_{{ i }} = coopLoadT<{{ matrix }}<f16, A>>(&left[(patch_first + {{ i * core }}u) * STRIDE + {{ k * core // wide }}u], STRIDE);
{% endfor %}
{% for j in range(patch_rows // core) %}
        let r{{ k }}_{{ j }} = coopLoad<{{ matrix }}<f16, B>>(&right[(patch_row + {{ j * core }}u) * STRIDE + {{ k * core // wide }}u], STRIDE);
{% endfor %}
{% for i in range(patch_batch // core) %}
{% for j in range(patch_rows // core) %}
        sums{{ i }}_{{ j }} = coopMultiplyAdd(l{{ k }}_{{ i }}, r{{ k }}_{{ j }}, sums{{ i }}_{{ j }});
{% endfor %}
{% endfor %}
{% endfor %}
{% if varying %}
        }
{% endif %}
    }
{% if straight %}
    // y has room for whole matrices
{% for i in range(patch_batch // core) %}
    if ({{ "subgroup < %su && "|format(subgroups) if varying }}first + patch_first + {{ i * core }}u < count) {
{% for j in range(patch_rows // core) %}
        if (part.first_row + patch_row + {{ j * core }}u < part.rows) {
            let at = (slab + first + patch_first + {{ i * core }}u) * {{ y_stride }}u + part.offset + part.first_row + patch_row + {{ j * core }}u;
            let sum{{ i }}_{{ j }} = {{ "coopLoadT<%s<f32, C>>(&y[at], %su) + "|format(matrix, y_stride) if add }}sums{{ i }}_{{ j }};
            coopStoreT(sum{{ i }}_{{ j }}, &y[at], {{ y_stride }}u);
        }
{% endfor %}
    }
{% endfor %}
{% else %}
    // through workgroup memory, because a matrix is stored whole and y may end within it
    let corner = subgroup * {{ core * staged_stride }}u;
{% for i in range(patch_batch // core) %}
{% for j in range(patch_rows // core) %}
{% if varying %}
    if (subgroup < {{ subgroups }}u) {
{% endif %}
    let sum{{ i }}_{{ j }} = sums{{ i }}_{{ j }};
    coopStoreT(sum{{ i }}_{{ j }}, &staged[corner], {{ staged_stride }}u);
{% if varying %}
    }
{% endif %}
    workgroupBarrier();
{% for e in range(1 if varying else core * core // lanes) %}
{% if varying %}
    for (var e = lane; e < {{ core * core }}u && subgroup < {{ subgroups }}u; e += width) {
{% else %}
    {
        let e = lane + {{ e * lanes }}u;
{% endif %}
        let r = first + patch_first + {{ i * core }}u + e / {{ core }}u;
        let n = part.first_row + patch_row + {{ j * core }}u + e % {{ core }}u;
        if (r < {{ "end_pair" if experts else "count" }} && n < part.rows) {
            let sum = staged[corner + e / {{ core }}u * {{ staged_stride }}u + e % {{ core }}u]{% if bias and not own_y %} + bias[{{ "which * %su"|format(y_stride) if experts else "%su"|format(offset) }} + n]{% endif %};
{% if own_y %}
            let at = r * part.rows + n;
{% for part in parts %}
            if (part.index == {{ loop.index0 }}u) {
                y{{ loop.index0 or "" }}[at] {{ "+=" if add else "=" }} sum{{ " + bias%s[n]"|format(loop.index0 or "") if bias }};
            }
{% endfor %}
{% else %}
            let at = (slab + {{ "y_row(r - first)" if experts else "r" }}) * {{ y_stride }}u + part.offset + n;
            y[at] {{ "+=" if add else "=" }} {{ "activated(sum)" if activation else "sum" }};
{% endif %}
        }
    }
{% endfor %}
    workgroupBarrier();
{% endfor %}
{% endfor %}
{% endif %}
}
