{# Partial sums of a product of rows with matrices that have sorted buckets (weights/buckets.rs): of each
   input a row multiplies the ranks whose mean magnitude times |x| exceeds the cutoff.
   A workgroup computes the 512 outputs of a tile from the chunks of one K split, or with `on_grid` off of
   all splits one after the other. For each chunk it first writes the selected lines and their activations
   to a list, at places from a prefix sum over the inputs. Then {{ groups }} groups of 16 threads take lines in turn: a
   thread has two buckets, and adds each product to the sum at its position, which no other thread has.
   These sums are added in the order of groups. #}
const K = {{ k }}u;
const THREADS = {{ threads }}u;
const GROUPS = {{ groups }}u;
const RANKS = {{ ranks }}u;
const CHUNK = {{ chunk }}u;
const CHUNKS = {{ chunks }}u;
// K splits, and chunks of one
const SPLITS = {{ splits }}u;
const EACH = {{ each }}u;
const LINE = {{ line }}u;
// tiles of all matrices
const TILES = {{ tiles }}u;
const NONE = 0xffffffffu;

var<storage, read> x: array<f32>;
var<storage, read> lives: array<u32>;
var<storage, read> cutoffs: array<vec2<u32>>;
var<storage, read_write> partial: array<f32>;
{% if norm %}
var<storage, read> norm_weight: array<f32>;
{% endif %}
{% for side in sides %}
var<storage, read> m{{ loop.index0 }}: array<u32>;
{% endfor %}

// sums [position, bucket, thread]
var<workgroup> sums: array<f32, {{ 32 * threads }}>;
// the first word of each selected line, and its activation
var<workgroup> entries: array<vec2<u32>, {{ chunk * ranks }}>;
var<workgroup> totals: array<u32, {{ subgroups }}>;

// 1 if a rank with this product is selected
fn selected(product: f32, cutoff: u32) -> u32 {
    let bits = bitcast<u32>(product);
    return select(0u, 1u, bits > cutoff && bits <= 0x7f800000u);
}

fn add(word: u32, a: f32, thread: u32) {
    let products = unpack2x16float(word) * a;
    sums[(word & 15u) * (2u * THREADS) + thread] += products.x;
    sums[((word >> 16u) & 15u) * (2u * THREADS) + THREADS + thread] += products.y;
}

{# The chunks of a split of side `s`. #}
{% macro chunks_of(s, side) %}
    for (var chunk = split * EACH; chunk < min((split + 1u) * EACH, CHUNKS); chunk++) {
        // the list of the chunk before has been read
        workgroupBarrier();
        let input = chunk * CHUNK + thread;
        var count = 0u;
        var a = 0.0;
        if (thread < CHUNK && input < K) {
            let v = x[row * K + input]{{ " * norm_weight[input]" if norm }};
            a = v * bitcast<f32>(m{{ s }}[{{ side.unit }}u]);
            let magnitude = abs(v);
{% for i in range((ranks + 1) // 2) %}
            let means{{ i }} = unpack2x16float(m{{ s }}[{{ side.means }}u + input * 8u + {{ i }}u]);
            count += selected(magnitude * means{{ i }}.x, cutoff);
{% if 2 * i + 1 < ranks %}
            count += selected(magnitude * means{{ i }}.y, cutoff);
{% endif %}
{% endfor %}
            // a NaN exceeds no cutoff, and must reach the results
            if (cutoff == NONE || (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u) {
                count = RANKS;
            }
        }
        var place = subgroupExclusiveAdd(count);
        let own = subgroupAdd(count);
        if (lane == 0u) {
            totals[subgroup] = own;
        }
        workgroupBarrier();
        var all = 0u;
        for (var i = 0u; i < subgroup_count; i++) {
            place += select(0u, totals[i], i < subgroup);
            all += totals[i];
        }
        for (var rank = 0u; rank < count; rank++) {
            entries[place + rank] = vec2((thread * RANKS + rank) * LINE, bitcast<u32>(a));
        }
        workgroupBarrier();
        let lines = (chunk * {{ side.tiles }}u + tile) * (CHUNK * RANKS * LINE) + thread % LINE;
        for (var i = thread / LINE; i < all; i += {{ unroll }}u * GROUPS) {
{% for u in range(unroll) %}
            let entry{{ u }} = entries[min(i + {{ u }}u * GROUPS, all - 1u)];
            let word{{ u }} = m{{ s }}[lines + entry{{ u }}.x];
{% endfor %}
{% for u in range(unroll) %}
            if (i + {{ u }}u * GROUPS < all) {
                add(word{{ u }}, bitcast<f32>(entry{{ u }}.y), thread);
            }
{% endfor %}
        }
    }
{% endmacro %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroup_count: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) subgroup_width: u32,
) {
    let thread = subgroup * subgroup_width + lane;
    let row = group.y;
    if (lives[{{ rows_at }}u + row * {{ lives_step }}u] >> 31u == 0u) {
        return;
    }
    var side = 0u;
    var tile = group.x{{ " / SPLITS" if on_grid }};
    let tile_of_all = tile;
{% for side in sides[1:] %}
    if (tile_of_all >= {{ side.first }}u) {
        side = {{ loop.index }}u;
        tile = tile_of_all - {{ side.first }}u;
    }
{% endfor %}
    let cutoff = cutoffs[row * {{ sides | length }}u + side].x;
{% if on_grid %}
    let split = group.x % SPLITS;
    {
{% else %}
{% for j in range(slots) %}
    var of_part{{ j }} = 0.0;
    var value{{ j }} = 0.0;
{% endfor %}
    for (var split = 0u; split < SPLITS; split++) {
{% endif %}
    for (var i = 0u; i < 32u; i++) {
        sums[i * THREADS + thread] = 0.0;
    }
{% for side in sides %}
{% if sides | length > 1 %}
    if (side == {{ loop.index0 }}u) {
{% endif %}
{{ chunks_of(loop.index0, side) }}
{% if sides | length > 1 %}
    }
{% endif %}
{% endfor %}
    workgroupBarrier();
{% for j in range(slots) %}
    {
        let base = (thread / LINE + {{ j * groups }}u) * THREADS + thread % LINE;
        var sum = sums[base];
{% for g in range(1, groups) %}
        sum += sums[base + {{ g }}u * LINE];
{% endfor %}
{% if on_grid %}
        partial[((row * TILES + tile_of_all) * SPLITS + split) * 512u + {{ j * threads }}u + thread] = sum;
{% else %}
        of_part{{ j }} += sum;
        if ((split + 1u) % {{ part }}u == 0u || split + 1u == SPLITS) {
            value{{ j }} += of_part{{ j }};
            of_part{{ j }} = 0.0;
        }
{% endif %}
    }
{% endfor %}
{% if not on_grid %}
    // the sums have been read
    workgroupBarrier();
{% endif %}
    }
{% if not on_grid %}
{% for j in range(slots) %}
    partial[(row * TILES + tile_of_all) * 512u + {{ j * threads }}u + thread] = value{{ j }};
{% endfor %}
{% endif %}
}
