{# A matrix product for few rows of activations, with what comes before and after it:
       y[r][n] = Σ_k W[n][k] · a[r][k] (+ bias[n])       a = x, or norm(x)
       y[r][n] += …                                      with add
       y[r][n] = silu(gate) · up                         with glu: two matrices
   With several `sides`, matrices lie side by side, of any formats in blocks: each has outputs of its
   own, and a workgroup takes rows of one of them.
   A subgroup takes `each` rows of the matrix at a time; its lanes go along them, `ahead` units each
   at a time. The workgroup first prepares the activations that all its rows share: for weights in
   blocks 8-bit codes with a scale for 32 (as crates/cpu does, so that both give the same integers),
   else floats. Weights are fetched one stage before they are used, the first before the
   activations are prepared, because they come from far away. #}
const K = {{ k }}u;
const UNITS = {{ units }}u;
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
{% for s in range(1, sides | length) %}
@group(0) @binding({{ next.b }}) var<storage, read_write> y{{ s }}: array<f32>;
{% set next.b = next.b + 1 %}
{% if bias %}
@group(0) @binding({{ next.b }}) var<storage, read> bias{{ s }}: array<f32>;
{% set next.b = next.b + 1 %}
{% endif %}
{% endfor %}
{% for matrix in matrices %}
{% set w = loop.index0 %}
{% set b = next.b %}
{% with kind=matrix.kind, defines=matrix.defines, format=matrix.of.format,
    low_bits=matrix.of.low_bits, high_bits=matrix.of.high_bits, scales=matrix.of.scales,
    zero=matrix.of.zero, has_min=matrix.of.has_min %}
{% include family %}
{% endwith %}
{% set next.b = next.b + matrix.of.sections %}
{% endfor %}

{% if blocks %}
// codes of unit u of row r: halves h at (r · 2 + h) · CHUNK + u
var<workgroup> codes: array<vec4<u32>, {{ batch * 2 * chunk }}>;
// scale, and the sums of the halves' codes in 16 bits each
var<workgroup> scales: array<vec2<f32>, {{ batch * chunk }}>;
{% else %}
var<workgroup> floats: array<vec4<f32>, {{ batch * chunk * unit // 4 }}>;
{% endif %}
{% if norm %}
var<workgroup> squares: array<f32, {{ batch * subgroups }}>;
{% endif %}

{% if norm %}
// A norm's factor for a row is the same for all its numbers: it is left out of the activations,
// which quantize to the same codes without it, and applied to the sums. Each subgroup leaves its
// part of the squares of row r here.
fn note_squares(r: u32, sum: f32, subgroup: u32, lane: u32) {
    let all = subgroupAdd(sum);
    if (lane == 0u) {
        squares[r * {{ subgroups }}u + subgroup] = all;
    }
}

// 1 / sqrt(mean(x²) + eps) of row r
fn factor(r: u32, subgroups: u32) -> f32 {
    var all = 0.0;
    for (var i = 0u; i < subgroups; i++) {
        all += squares[r * {{ subgroups }}u + i];
    }
    return inverseSqrt(all / f32(K) + {{ eps }});
}
{% endif %}

{% if blocks %}
fn pack(v: vec4<f32>) -> u32 {
    return pack4xI8(vec4<i32>(v));
}

{% set own = 8 // share %}
{% set words = chunk * share %}
{% set rounds = (words + threads * together - 1) // (threads * together) %}
// Quantizes the units start .. start + CHUNK of row `row` into slot r: {{ share }} lanes take a unit.
// What comes from far is asked for at once. Returns this thread's part of the squares.
fn prepare(r: u32, row: u32, start: u32, thread: u32) -> f32 {
    var sum_of_squares = 0.0;
    let begin = row * (K / 4u);
    let within = thread % {{ share }}u;
{% if rounds > 1 %}
    for (var base = thread; base < {{ rounds * threads * together }}u; base += {{ threads * together }}u) {
{% else %}
    {
        let base = thread;
{% endif %}
{% for i in range(together) %}
        let unit{{ i }} = (base + {{ i * threads }}u) / {{ share }}u;
        let from{{ i }} = (start + unit{{ i }}) * 8u + within * {{ own }}u;
        let inside{{ i }} = unit{{ i }} < CHUNK && from{{ i }} < K / 4u;
        let at{{ i }} = min(from{{ i }}, K / 4u - {{ own }}u);
{% for j in range(own) %}
        let x{{ i }}_{{ j }} = x[begin + at{{ i }} + {{ j }}u];
{% if norm %}
        let v{{ i }}_{{ j }} = x{{ i }}_{{ j }} * norm_weight[at{{ i }} + {{ j }}u];
{% endif %}
{% endfor %}
{% endfor %}
{% set v = "v" if norm else "x" %}
{% for i in range(together) %}
        {
            // as integers magnitudes order like floats, infinities and NaN come last
            var m = vec4(0u);
{% for j in range(own) %}
            m = max(m, bitcast<vec4<u32>>(abs({{ v }}{{ i }}_{{ j }})));
{% endfor %}
            var most = max(max(m.x, m.y), max(m.z, m.w));
{% for mask in [1, 2, 4] if mask < share %}
            most = max(most, subgroupShuffleXor(most, {{ mask }}u));
{% endfor %}
            let magnitude = bitcast<f32>(most);
            let usable = most < 0x7f800000u && magnitude > 1e-35;
            let inverse = select(0.0, 127.0 / magnitude, usable);
            var total = vec4(0.0);
{% for j in range(own) %}
            let q{{ j }} = select(vec4(0.0), round({{ v }}{{ i }}_{{ j }} * inverse), vec4(usable));
            total += q{{ j }};
{% endfor %}
            var sum = i32(total.x + total.y + total.z + total.w);
{% for mask in [1, 2] if mask < share // 2 %}
            sum += subgroupShuffleXor(sum, {{ mask }}u);
{% endfor %}
            let other = subgroupShuffleXor(sum, {{ share // 2 }}u);
            if (inside{{ i }}) {
{% if norm %}
                sum_of_squares += {% for j in range(own) %}{{ " + " if not loop.first }}dot(x{{ i }}_{{ j }}, x{{ i }}_{{ j }}){% endfor %};
{% endif %}
{% for j in range(own) %}
                let word{{ j }} = within * {{ own }}u + {{ j }}u;
                codes[(r * 2u + word{{ j }} / 4u) * CHUNK + unit{{ i }}][word{{ j }} % 4u] = pack(q{{ j }});
{% endfor %}
                if (within == 0u) {
                    // a row with an infinity or a NaN gives NaN
                    let scale = select(bitcast<f32>(most | 0x7fc00000u), select(0.0, magnitude / 127.0, usable), most < 0x7f800000u);
                    scales[r * CHUNK + unit{{ i }}] = vec2(scale, bitcast<f32>((u32(sum) & 0xffffu) | (u32(other) << 16u)));
                }
            }
        }
{% endfor %}
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

{% for matrix in matrices if matrix.defines %}
{% set kind = matrix.kind %}
{% set of = matrix.of %}
fn product{{ kind }}(u: Unit{{ kind }}, a: Activations) -> f32 {
{% if of.split %}
    let first = f32(four(u.first, a.first){% if of.zero %} - ZERO{{ kind }} * a.sums.x{% endif %});
    let second = f32(four(u.second, a.second){% if of.zero %} - ZERO{{ kind }} * a.sums.y{% endif %});
    var sum = u.scale.x * first + u.scale.y * second;
{% if of.has_min %}
    sum += u.min.x * f32(a.sums.x) + u.min.y * f32(a.sums.y);
{% endif %}
{% else %}
    let all = four(u.first, a.first) + four(u.second, a.second){% if of.zero %} - ZERO{{ kind }} * (a.sums.x + a.sums.y){% endif %};
    var sum = u.scale.x * f32(all);
{% if of.has_min %}
    sum += u.min.x * f32(a.sums.x + a.sums.y);
{% endif %}
{% endif %}
    return a.scale * sum;
}
{% endfor %}
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

fn product{{ matrices[0].kind }}(u: Unit{{ matrices[0].kind }}, a: Activations) -> f32 {
    return {% for j in range(unit // 4) %}{{ " + " if not loop.first }}dot(u.v{{ j }}, a.v{{ j }}){% endfor %};
}
{% endif %}

{# Several rows take turns in a loop: written out, they take drivers seconds to compile. #}
{% macro prepare_all(start) %}
    for (var r = 0u; r < {{ batch }}u; r++) {
        let row = min(group.y * {{ batch }}u + r, count - 1u);
{% if norm and start == "0u" %}
        note_squares(r, prepare(r, row, 0u, thread), subgroup, lane);
{% else %}
        _ = prepare(r, row, {{ start }}, thread);
{% endif %}
    }
{% endmacro %}
{# What a stage needs: part `stage % parts` of the weights of turn `stage / parts`, and what is there
   to add to. #}
{% macro fetch_stage(s, ws, stage) %}
{% for n in range(each) %}
        let fetch_row{{ n }} = min(first_of(tile, ({{ stage }}) / {{ parts }}u, subgroup, subgroups) + {{ n }}u, {{ sides[s].rows - 1 }}u);
{% if add %}
{% for r in range(batch) %}
        old{{ n }}_{{ r }} = y{{ s or "" }}[in{{ r }} * {{ sides[s].stride }}u + {{ offset }}u + fetch_row{{ n }}];
{% endfor %}
{% endif %}
{% endfor %}
{% for a in range(ahead) %}
        let fetch_unit{{ a }} = min((({{ stage }}) % {{ parts }}u * {{ ahead }}u + {{ a }}u) * width + lane, UNITS - 1u);
{% for n in range(each) %}
{% for w in ws %}
        raw{{ w }}_{{ n }}_{{ a }} = fetch{{ w }}(fetch_row{{ n }}, fetch_unit{{ a }});
{% endfor %}
{% endfor %}
{% endfor %}
{% endmacro %}
{# The rows of side `s`, of the matrices `ws`. #}
{% macro rows_of(s, ws) %}
{% if whole %}
{% for n in range(each) %}
{% if add %}
{% for r in range(batch) %}
    var old{{ n }}_{{ r }}: f32;
{% endfor %}
{% endif %}
{% for w in ws %}
{% for a in range(ahead) %}
    var raw{{ w }}_{{ n }}_{{ a }}: Raw{{ matrices[w].kind }};
{% endfor %}
{% endfor %}
{% endfor %}
    {
{{ fetch_stage(s, ws, "0u") }}
    }
{{ prepare_all("0u") }}
    workgroupBarrier();
{% elif norm %}
    // the norm comes before the parts of the rows
    for (var r = 0u; r < {{ batch }}u; r++) {
        let row = min(group.y * {{ batch }}u + r, count - 1u);
        var sum = 0.0;
        for (var start = 0u; start < UNITS; start += CHUNK) {
            sum += prepare(r, row, start, thread);
        }
        note_squares(r, sum, subgroup, lane);
    }
    workgroupBarrier();
{% endif %}
{% for n in range(each) %}
{% for w in ws %}
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
{% if add %}
{% for r in range(batch) %}
        let before{{ n }}_{{ r }} = old{{ n }}_{{ r }};
{% endfor %}
{% endif %}
{% for w in ws %}
{% for a in range(ahead) %}
        let now{{ w }}_{{ n }}_{{ a }} = raw{{ w }}_{{ n }}_{{ a }};
{% endfor %}
{% endfor %}
{% endfor %}
        if (stage + 1u < turns * {{ parts }}u) {
{{ fetch_stage(s, ws, "stage + 1u") }}
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
{% for w in ws %}
            let w{{ w }}_{{ n }} = decode{{ matrices[w].kind }}(now{{ w }}_{{ n }}_{{ a }});
{% endfor %}
{% endfor %}
{% for r in range(batch) %}
            let a{{ r }} = activations({{ r }}u, at);
{% for n in range(each) %}
{% for w in ws %}
            sum{{ w }}_{{ n }}_{{ r }} += {{ "select(0.0, " if not exact }}product{{ matrices[w].kind }}(w{{ w }}_{{ n }}, a{{ r }}){{ ", inside)" if not exact }};
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
        let row{{ n }} = min(first_of(tile, turn, subgroup, subgroups) + {{ n }}u, {{ sides[s].rows - 1 }}u);
{% endfor %}
        for (var start = 0u; start < UNITS; start += CHUNK) {
            workgroupBarrier();
{{ prepare_all("start") }}
            workgroupBarrier();
            let end = min(start + CHUNK, UNITS);
            for (var unit = start + lane; unit < end; unit += width) {
{% for n in range(each) %}
{% for w in ws %}
                let w{{ w }}_{{ n }} = decode{{ matrices[w].kind }}(fetch{{ w }}(row{{ n }}, unit));
{% endfor %}
{% endfor %}
{% for r in range(batch) %}
                let a{{ r }} = activations({{ r }}u, unit - start);
{% for n in range(each) %}
{% for w in ws %}
                sum{{ w }}_{{ n }}_{{ r }} += product{{ matrices[w].kind }}(w{{ w }}_{{ n }}, a{{ r }});
{% endfor %}
{% endfor %}
{% endfor %}
            }
        }
{% endif %}
{% for n in range(each) %}
{% for r in range(batch) %}
{% for w in ws %}
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
            if (first + {{ n }}u < min(tile * {{ tile }}u + {{ tile }}u, {{ sides[s].rows }}u){% if batch > 1 %} && group.y * {{ batch }}u + {{ r }}u < count{% endif %}) {
{% set factor = " * factor%s"|format(r) if norm else "" %}
{% if glu %}
                let gate = total0_{{ n }}_{{ r }}{{ factor }};
                let value = gate / (1.0 + exp(-gate)) * total1_{{ n }}_{{ r }}{{ factor }};
{% else %}
                let value = total{{ s }}_{{ n }}_{{ r }}{{ factor }}{% if bias %} + bias{{ s or "" }}[{{ offset }}u + first + {{ n }}u]{% endif %};
{% endif %}
                let at = in{{ r }} * {{ sides[s].stride }}u + {{ offset }}u + first + {{ n }}u;
                y{{ s or "" }}[at] = {{ ("before%s_%s + "|format(n, r) if whole else "y[at] + ") if add }}value;
            }
{% endfor %}
{% endfor %}
        }
    }
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
{% if sides | length > 1 %}
{% for side in sides %}
    {{ "else " if not loop.first }}{% if not loop.last %}if (group.x < {{ side.end }}u) {% endif %}{
        let tile = group.x - {{ side.first }}u;
{{ rows_of(loop.index0, [loop.index0]) }}
    }
{% endfor %}
{% else %}
    let tile = group.x;
{{ rows_of(0, range(matrices | length)) }}
{% endif %}
}
