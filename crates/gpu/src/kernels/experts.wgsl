{# The choice of one of several matrices by a workgroup, and its rows of activations and results. A
   pair is a row with one of its chosen experts, `row · used + s`, or with a head, `row · heads + h`:
       ids       one pair; the expert's id is read
       sorted    a tile of pairs of one expert (sort_experts.wgsl)
       heads     consecutive rows of one head
   A result has a row for each pair; activations have a row for each pair, or for each row. #}
{% if experts.pick == "ids" %}
var<storage, read> ids: array<f32>;
{% elif experts.pick == "sorted" %}
var<storage, read> tiles: array<vec4<u32>>;
var<storage, read> pairs: array<u32>;
{% endif %}

// the matrix, its first row in this shard, and the range of the workgroup's pairs or rows
var<private> which: u32;
var<private> base_row: u32;
var<private> first_pair: u32;
var<private> end_pair: u32;

// Chooses the matrix; false if the workgroup has no work. The result is uniform: a compiler of browsers proves it
// of values, not of private variables.
fn choose(index: u32, head: u32, count: u32) -> bool {
{% if experts.pick == "ids" %}
    let chosen = min(u32(max(ids[index], 0.0)), {{ experts.count - 1 }}u);
    let first = index;
    let end = index + 1u;
{% elif experts.pick == "sorted" %}
    let tile = tiles[index];
    let chosen = tile.x;
    let first = tile.y;
    let end = tile.z;
{% else %}
    let chosen = head;
    let first = index * {{ batch }}u;
    let end = {{ "first + 1u" if batch == 1 else "count" }};
{% endif %}
    which = chosen;
    first_pair = first;
    end_pair = end;
    base_row = (chosen - {{ experts.first }}u) * {{ experts.rows }}u;
    return chosen >= {{ experts.first }}u && chosen < {{ experts.end }}u && first < end;
}

// The row of results of the workgroup's pair r; after the last pair, that of the last.
fn y_row(r: u32) -> u32 {
    let at = min(first_pair + r, end_pair - 1u);
{% if experts.pick == "sorted" %}
    return pairs[at];
{% elif experts.pick == "heads" %}
    return at * {{ experts.count }}u + which;
{% else %}
    return at;
{% endif %}
}

// Its row of activations.
fn x_row(r: u32) -> u32 {
    return y_row(r){{ " / %su"|format(experts.used) if not experts.own }};
}
