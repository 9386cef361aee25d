{# A matrix product for few rows of activations, with what comes before and after it:
       y[r][n] = Σ_k W[n][k] · a[r][k] (+ bias[n])       a = x, or norm(x)
       y[r][n] += …                                      with add
       y[r][n] = silu(gate) · up                         with glu: two matrices
   With `side` more than one, matrices lie side by side: each has outputs of its own, and a
   workgroup takes rows of one of them.
   A subgroup takes `each` rows of the matrix at a time; its lanes go along them, `ahead` units each
   at a time. The workgroup first prepares the activations that all its rows share: for weights in
   blocks 8-bit codes with a scale for 32 (as crates/cpu does, so that both give the same integers),
   else floats. Weights are fetched one stage before they are used, the first before the
   activations are prepared, because they come from far away. #}
const K = {{ k }}u;
const UNITS = {{ units }}u;
{% if side == 1 %}
const ROWS = {{ rows }}u;
{% endif %}
const THREADS = {{ threads }}u;
const CHUNK = {{ chunk }}u;
{% set whole = chunk >= units %}

{% set vector = blocks or k % 4 == 0 %}
@group(0) @binding(0) var<storage, read> x: array<{{ "vec4<f32>" if vector else "f32" }}>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read> pass_info: array<u32>;
{% set next = namespace(b=3) %}
{% if norm %}
@group(0) @binding({{ next.b }}) var<storage, read> norm_weight: array<{{ "vec4<f32>" if vector else "f32" }}>;
{% set next.b = next.b + 1 %}
{% endif %}
{% if bias %}
@group(0) @binding({{ next.b }}) var<storage, read> bias: array<f32>;
{% set next.b = next.b + 1 %}
{% endif %}
{% for w in range(1, side) %}
@group(0) @binding({{ next.b }}) var<storage, read_write> y{{ w }}: array<f32>;
{% set next.b = next.b + 1 %}
{% if bias %}
@group(0) @binding({{ next.b }}) var<storage, read> bias{{ w }}: array<f32>;
{% set next.b = next.b + 1 %}
{% endif %}
{% endfor %}
{% for w in range(matrices * side) %}
{% set b = next.b + w * sections %}
{% include family %}
{% endfor %}
{% if side > 1 %}

fn fetch_side(which: u32, row: u32, unit: u32) -> Raw {
{% for w in range(1, side) %}
    if (which == {{ w }}u) {
        return fetch{{ w }}(row, unit);
    }
{% endfor %}
    return fetch0(row, unit);
}
{% endif %}

{% if blocks %}
// codes of unit u of row r: halves h at (r · 2 + h) · CHUNK + u
var<workgroup> codes: array<vec4<u32>, {{ batch * 2 * chunk }}>;
// scale, and the sums of the halves' codes in 16 bits each
var<workgroup> scales: array<vec2<f32>, {{ batch * chunk }}>;
{% else %}
var<workgroup> floats: array<vec4<f32>, {{ batch * chunk * unit // 4 }}>;
{% endif %}
{% if norm %}
var<workgroup> squares: array<f32, {{ batch * threads }}>;
{% endif %}

{% if norm %}
// A norm's factor for a row is the same for all its numbers: it is left out of the activations,
// which quantize to the same codes without it, and applied to the sums. Each subgroup leaves its
// part of the squares of row r here.
fn note_squares(r: u32, sum: f32, subgroup: u32, lane: u32) {
    let all = subgroupAdd(sum);
    if (lane == 0u) {
        squares[r * {{ threads }}u + subgroup] = all;
    }
}

// 1 / sqrt(mean(x²) + eps) of row r
fn factor(r: u32, subgroups: u32) -> f32 {
    var all = 0.0;
    for (var i = 0u; i < subgroups; i++) {
        all += squares[r * {{ threads }}u + i];
    }
    return inverseSqrt(all / f32(K) + {{ eps }});
}
{% endif %}

{% if blocks %}
fn pack(v: vec4<f32>) -> u32 {
    return pack4xI8(vec4<i32>(v));
}

// Quantizes the units start .. start + CHUNK of row `row` into slot r: a lane takes half a unit.
// Returns this thread's part of the squares.
fn prepare(r: u32, row: u32, start: u32, thread: u32) -> f32 {
    var sum_of_squares = 0.0;
    for (var i = thread; i < CHUNK * 2u; i += THREADS) {
        let at = (start * 2u + i) * 4u;
        if (at < K / 4u) {
        let begin = row * (K / 4u) + at;
{% for j in range(4) %}
{% if norm %}
        let x{{ j }} = x[begin + {{ j }}u];
        let v{{ j }} = x{{ j }} * norm_weight[at + {{ j }}u];
        sum_of_squares += dot(x{{ j }}, x{{ j }});
{% else %}
        let v{{ j }} = x[begin + {{ j }}u];
{% endif %}
{% endfor %}
        // as integers magnitudes order like floats, infinities and NaN come last
        let m = max(max(bitcast<vec4<u32>>(abs(v0)), bitcast<vec4<u32>>(abs(v1))),
            max(bitcast<vec4<u32>>(abs(v2)), bitcast<vec4<u32>>(abs(v3))));
        let mine = max(max(m.x, m.y), max(m.z, m.w));
        let most = max(mine, subgroupShuffleXor(mine, 1u));
        let magnitude = bitcast<f32>(most);
        let usable = most < 0x7f800000u && magnitude > 1e-35;
        let inverse = select(0.0, 127.0 / magnitude, usable);
{% for j in range(4) %}
        let q{{ j }} = select(vec4(0.0), round(v{{ j }} * inverse), vec4(usable));
{% endfor %}
        let total = q0 + q1 + q2 + q3;
        let sum = i32(total.x + total.y + total.z + total.w);
        let other = subgroupShuffleXor(sum, 1u);
        let unit = i >> 1u;
        codes[(r * 2u + (i & 1u)) * CHUNK + unit] = vec4(pack(q0), pack(q1), pack(q2), pack(q3));
        if ((i & 1u) == 0u) {
            // a row with an infinity or a NaN gives NaN
            let scale = select(bitcast<f32>(most | 0x7fc00000u), select(0.0, magnitude / 127.0, usable), most < 0x7f800000u);
            scales[r * CHUNK + unit] = vec2(scale, bitcast<f32>((u32(sum) & 0xffffu) | (u32(other) << 16u)));
        }
        }
    }
    return sum_of_squares;
}

struct Activations {
    first: vec4<u32>,
    second: vec4<u32>,
    scale: f32,
    sums: vec2<i32>,
}

fn activations(r: u32, unit: u32) -> Activations {
    let s = scales[r * CHUNK + unit];
    let sums = bitcast<i32>(s.y);
    return Activations(
        codes[r * 2u * CHUNK + unit],
        codes[(r * 2u + 1u) * CHUNK + unit],
        s.x,
        vec2((sums << 16u) >> 16u, sums >> 16u),
    );
}

fn four(a: vec4<u32>, b: vec4<u32>) -> i32 {
    return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z)
        + dot4I8Packed(a.w, b.w);
}

fn product(u: Unit, a: Activations) -> f32 {
{% if split %}
    let first = f32(four(u.first, a.first){% if zero %} - ZERO * a.sums.x{% endif %});
    let second = f32(four(u.second, a.second){% if zero %} - ZERO * a.sums.y{% endif %});
    var sum = u.scale.x * first + u.scale.y * second;
{% if has_min %}
    sum += u.min.x * f32(a.sums.x) + u.min.y * f32(a.sums.y);
{% endif %}
{% else %}
    let all = four(u.first, a.first) + four(u.second, a.second){% if zero %} - ZERO * (a.sums.x + a.sums.y){% endif %};
    var sum = u.scale.x * f32(all);
{% if has_min %}
    sum += u.min.x * f32(a.sums.x + a.sums.y);
{% endif %}
{% endif %}
    return a.scale * sum;
}
{% else %}
// Copies the units start .. start + CHUNK of row `row` into slot r, zeros after the row's end.
// Returns this thread's part of the squares.
fn prepare(r: u32, row: u32, start: u32, thread: u32) -> f32 {
    var sum_of_squares = 0.0;
    for (var i = thread; i < CHUNK * {{ unit // 4 }}u; i += THREADS) {
        let at = start * {{ unit // 4 }}u + i;
        var v = vec4(0.0);
{% if vector %}
        if (at < K / 4u) {
            v = x[row * (K / 4u) + at];
        }
{% else %}
{% for j in range(4) %}
        if (at * 4u + {{ j }}u < K) {
            v[{{ j }}] = x[row * K + at * 4u + {{ j }}u];
        }
{% endfor %}
{% endif %}
{% if norm %}
        sum_of_squares += dot(v, v);
{% if vector %}
        if (at < K / 4u) {
            v *= norm_weight[at];
        }
{% else %}
{% for j in range(4) %}
        if (at * 4u + {{ j }}u < K) {
            v[{{ j }}] *= norm_weight[at * 4u + {{ j }}u];
        }
{% endfor %}
{% endif %}
{% endif %}
        floats[r * CHUNK * {{ unit // 4 }}u + i] = v;
    }
    return sum_of_squares;
}

struct Activations {
{% for j in range(unit // 4) %}
    v{{ j }}: vec4<f32>,
{% endfor %}
}

fn activations(r: u32, unit: u32) -> Activations {
    let at = (r * CHUNK + unit) * {{ unit // 4 }}u;
    return Activations({% for j in range(unit // 4) %}floats[at + {{ j }}u], {% endfor %});
}

fn product(u: Unit, a: Activations) -> f32 {
    return {% for j in range(unit // 4) %}{{ " + " if not loop.first }}dot(u.v{{ j }}, a.v{{ j }}){% endfor %};
}
{% endif %}

{% macro prepare_all(start) %}
{% for r in range(batch) %}
{% if norm and start == "0u" %}
    note_squares({{ r }}u, prepare({{ r }}u, in{{ r }}, 0u, thread), subgroup, lane);
{% else %}
    _ = prepare({{ r }}u, in{{ r }}, {{ start }}, thread);
{% endif %}
{% endfor %}
{% endmacro %}
{# The weights of a stage: part `stage % parts` of turn `stage / parts`. #}
{% macro fetch_stage(stage) %}
{% for n in range(each) %}
        let fetch_row{{ n }} = min(first_of(tile, ({{ stage }}) / {{ parts }}u, subgroup, subgroups) + {{ n }}u, ROWS - 1u);
{% endfor %}
{% for a in range(ahead) %}
        let fetch_unit{{ a }} = min((({{ stage }}) % {{ parts }}u * {{ ahead }}u + {{ a }}u) * width + lane, UNITS - 1u);
{% for n in range(each) %}
{% for w in range(matrices) %}
        raw{{ w }}_{{ n }}_{{ a }} = fetch{{ "_side(which, " if side > 1 else w ~ "(" }}fetch_row{{ n }}, fetch_unit{{ a }});
{% endfor %}
{% endfor %}
{% endfor %}
{% endmacro %}
// The first row of a subgroup's turn.
fn first_of(group: u32, turn: u32, subgroup: u32, subgroups: u32) -> u32 {
    return group * {{ tile }}u + (turn * subgroups + subgroup) * {{ each }}u;
}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroup_count: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) subgroup_width: u32,
) {
{% if fixed_width %}
    let width = {{ fixed_width }}u;
    let subgroups = {{ threads // fixed_width }}u;
{% else %}
    let width = subgroup_width;
    let subgroups = subgroup_count;
{% endif %}
    let thread = subgroup * width + lane;
{% if side > 1 %}
    // which matrix, and which tile of it
    var which = 0u;
    var tile = group.x;
    var ROWS = {{ side_rows[0] }}u;
{% for w in range(1, side) %}
    if (group.x >= {{ side_first[w] }}u) {
        which = {{ w }}u;
        tile = group.x - {{ side_first[w] }}u;
        ROWS = {{ side_rows[w] }}u;
    }
{% endfor %}
{% else %}
    let tile = group.x;
{% endif %}
{% if batch == 1 %}
    let count = 1u;
{% else %}
    let count = pass_info[{{ count_at }}];
{% endif %}
{% for r in range(batch) %}
    // slots after the last row repeat it, and are not written
    let in{{ r }} = min(group.y * {{ batch }}u + {{ r }}u, count - 1u);
{% endfor %}
    // all subgroups take the same number of turns, so that they meet at barriers
    let turns = ({{ tile }}u + subgroups * {{ each }}u - 1u) / (subgroups * {{ each }}u);
{% if whole %}
{% for n in range(each) %}
{% for w in range(matrices) %}
{% for a in range(ahead) %}
    var raw{{ w }}_{{ n }}_{{ a }}: Raw;
{% endfor %}
{% endfor %}
{% endfor %}
    {
{{ fetch_stage("0u") }}
    }
{{ prepare_all("0u") }}
    workgroupBarrier();
{% elif norm %}
    // the norm comes before the parts of the rows
{% for r in range(batch) %}
    {
        var sum = 0.0;
        for (var start = 0u; start < UNITS; start += CHUNK) {
            sum += prepare({{ r }}u, in{{ r }}, start, thread);
        }
        note_squares({{ r }}u, sum, subgroup, lane);
    }
{% endfor %}
    workgroupBarrier();
{% endif %}
{% for n in range(each) %}
{% for w in range(matrices) %}
{% for r in range(batch) %}
    var sum{{ w }}_{{ n }}_{{ r }} = 0.0;
{% endfor %}
{% endfor %}
{% endfor %}
{% if whole %}
    for (var stage = 0u; stage < turns * {{ parts }}u; stage++) {
        let turn = stage / {{ parts }}u;
        let part = stage % {{ parts }}u;
{% for n in range(each) %}
{% for w in range(matrices) %}
{% for a in range(ahead) %}
        let now{{ w }}_{{ n }}_{{ a }} = raw{{ w }}_{{ n }}_{{ a }};
{% endfor %}
{% endfor %}
{% endfor %}
        if (stage + 1u < turns * {{ parts }}u) {
{{ fetch_stage("stage + 1u") }}
        }
{% for a in range(ahead) %}
        {
            let unit = (part * {{ ahead }}u + {{ a }}u) * width + lane;
{% if not exact %}
            let inside = unit < UNITS;
            let at = min(unit, UNITS - 1u);
{% else %}
            let at = unit;
{% endif %}
{% for n in range(each) %}
{% for w in range(matrices) %}
            let w{{ w }}_{{ n }} = decode(now{{ w }}_{{ n }}_{{ a }});
{% endfor %}
{% endfor %}
{% for r in range(batch) %}
            let a{{ r }} = activations({{ r }}u, at);
{% for n in range(each) %}
{% for w in range(matrices) %}
            sum{{ w }}_{{ n }}_{{ r }} += {{ "product(w%s_%s, a%s)"|format(w, n, r) if exact else "select(0.0, product(w%s_%s, a%s), inside)"|format(w, n, r) }};
{% endfor %}
{% endfor %}
{% endfor %}
        }
{% endfor %}
        if (part + 1u < {{ parts }}u) {
            continue;
        }
{% else %}
    for (var turn = 0u; turn < turns; turn++) {
{% for n in range(each) %}
        let row{{ n }} = min(first_of(tile, turn, subgroup, subgroups) + {{ n }}u, ROWS - 1u);
{% endfor %}
        for (var start = 0u; start < UNITS; start += CHUNK) {
            workgroupBarrier();
{{ prepare_all("start") }}
            workgroupBarrier();
            let end = min(start + CHUNK, UNITS);
            for (var unit = start + lane; unit < end; unit += width) {
{% for n in range(each) %}
{% for w in range(matrices) %}
                let w{{ w }}_{{ n }} = decode(fetch{{ "_side(which, " if side > 1 else w ~ "(" }}row{{ n }}, unit));
{% endfor %}
{% endfor %}
{% for r in range(batch) %}
                let a{{ r }} = activations({{ r }}u, unit - start);
{% for n in range(each) %}
{% for w in range(matrices) %}
                sum{{ w }}_{{ n }}_{{ r }} += product(w{{ w }}_{{ n }}, a{{ r }});
{% endfor %}
{% endfor %}
{% endfor %}
            }
        }
{% endif %}
{% for n in range(each) %}
{% for r in range(batch) %}
{% for w in range(matrices) %}
        let total{{ w }}_{{ n }}_{{ r }} = subgroupAdd(sum{{ w }}_{{ n }}_{{ r }});
        sum{{ w }}_{{ n }}_{{ r }} = 0.0;
{% endfor %}
{% endfor %}
{% endfor %}
        let first = first_of(tile, turn, subgroup, subgroups);
        if (lane == 0u) {
{% for r in range(batch) %}
{% if norm %}
            let factor{{ r }} = factor({{ r }}u, subgroups);
{% endif %}
{% for n in range(each) %}
            if (first + {{ n }}u < min(tile * {{ tile }}u + {{ tile }}u, ROWS){% if batch > 1 %} && group.y * {{ batch }}u + {{ r }}u < count{% endif %}) {
{% set factor = " * factor%s"|format(r) if norm else "" %}
{% if glu %}
                let gate = total0_{{ n }}_{{ r }}{{ factor }};
                let value = gate / (1.0 + exp(-gate)) * total1_{{ n }}_{{ r }}{{ factor }};
{% else %}
                let value = total0_{{ n }}_{{ r }}{{ factor }}{% if bias and side == 1 %} + bias[{{ offset }}u + first + {{ n }}u]{% endif %};
{% endif %}
{% if side > 1 %}
                let at = in{{ r }} * ROWS + first + {{ n }}u;
{% for w in range(1, side) %}
                if (which == {{ w }}u) {
                    y{{ w }}[at] = value{% if bias %} + bias{{ w }}[first + {{ n }}u]{% endif %};
                }
{% endfor %}
                if (which == 0u) {
                    y[at] = value{% if bias %} + bias[first + {{ n }}u]{% endif %};
                }
{% else %}
                y[in{{ r }} * {{ stride }}u + {{ offset }}u + first + {{ n }}u] {{ "+=" if add else "=" }} value;
{% endif %}
            }
{% endfor %}
{% endfor %}
        }
    }
}
