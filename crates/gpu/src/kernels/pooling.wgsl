{# The pooling of sequences: for each selected row the mean, the first or the last of the rows of its
   sequence, which lie one after the other from position 0. A workgroup of 16 × 16 threads computes
   16 elements, vectors of four where the width is a multiple of four: 16 threads sum every 16th row
   each, and their sums are added in order. #}
const WIDTH = {{ width }}u;
alias Element = {{ element }};

// token, position, slot, and number of positions of the row's sequence in the pass
var<storage, read> rows: array<vec4<u32>>;
var<storage, read> selected: array<u32>;
var<storage, read> x: array<Element>;
var<storage, read_write> y: array<Element>;

var<workgroup> sums: array<Element, 256>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = selected[group.y];
    let first = row - rows[row].y;
    let count = max(rows[row].w, 1u);
    let column = group.x * 16u + thread % 16u;
    let at = min(column, WIDTH - 1u);
    let strand = thread / 16u;
{% if pooling == "mean" %}
    var sum = Element(0.0);
    for (var r = strand; r < count; r += 16u) {
        sum += x[(first + r) * WIDTH + at];
    }
    sums[thread] = sum;
    workgroupBarrier();
    if (strand == 0u && column < WIDTH) {
        for (var s = 1u; s < 16u; s++) {
            sum += sums[s * 16u + thread];
        }
        y[group.y * WIDTH + column] = sum / f32(count);
    }
{% else %}
    if (strand == 0u && column < WIDTH) {
        y[group.y * WIDTH + column] = x[(first{{ " + count - 1u" if pooling == "last" }}) * WIDTH + at];
    }
{% endif %}
}
