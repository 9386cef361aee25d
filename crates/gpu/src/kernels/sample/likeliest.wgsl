{# Selection of the k likeliest tokens by one workgroup. They are in the k chunks whose best tokens
   are the likeliest: any other token has k better ones before it. So a search goes through the best
   tokens of all chunks, and a second one through k chunks. Both stop as soon as few enough tokens
   are left. The including file defines `best`, the best tokens of chunks. #}
const THREADS = {{ threads }}u;
const EACH = {{ each }}u;

var<workgroup> counts: array<atomic<u32>, 2048>;
var<workgroup> length: atomic<u32>;
var<workgroup> chunks: array<u32, {{ threads }}>;
// keys and tokens, in no order
var<workgroup> candidates: array<vec2<u32>, {{ threads }}>;

fn bin(i: u32) -> vec3<u32> {
    return vec3(atomicLoad(&counts[i]), 0u, 0u);
}

{% include "sample/pick.wgsl" %}

struct Four {
    keys: vec4<u32>,
    tokens: vec4<u32>,
}

// Four of the chunks' best tokens, or of the tokens of the selected chunks.
fn four(want: u32, in_chunks: bool, i: u32) -> Four {
    if (in_chunks) {
        let chunk = chunks[i / EACH];
        let at = (chunk / {{ chunk_threads }}u * EACH + i % EACH) * {{ chunk_threads }}u
            + chunk % {{ chunk_threads }}u;
        return Four(keys(at), 4u * at + vec4(0u, 1u, 2u, 3u));
    }
    let at = want * {{ chunks }}u + 4u * i;
    let a = best[at];
    let b = best[at + 1u];
    let c = best[at + 2u];
    let d = best[at + 3u];
    return Four(vec4(a.x, b.x, c.x, d.x), vec4(a.y, b.y, c.y, d.y));
}

// Fills `candidates` with the k likeliest tokens, 1 to {{ few }}, and some more, at most one for each
// thread. Returns their number.
fn select_likeliest(
    want: u32,
    k: u32,
    thread: u32,
    subgroup: u32,
    subgroups: u32,
    lane: u32,
    width: u32,
) -> u32 {
    let enough = max(2u * k, 64u);
    var fours = {{ chunks // 4 }}u;
    for (var search = 0u; search < 2u; search++) {
        let in_chunks = search == 1u;
        if (thread == 0u) {
            atomicStore(&length, 0u);
        }
        var cut = Cut(0u, 0u);
        var before = vec3(0u);
        for (var level = 0u; level < LEVELS; level++) {
            for (var i = thread; i < BINS; i += THREADS) {
                atomicStore(&counts[i], 0u);
            }
            workgroupBarrier();
            for (var i = thread; i < fours; i += THREADS) {
                let f = four(want, in_chunks, i);
{% for j in range(4) %}
                let rank{{ j }} = rank_of(f.tokens[{{ j }}]);
                if (has_prefix(cut, level, f.keys[{{ j }}], rank{{ j }})) {
                    atomicAdd(&counts[digit(level, f.keys[{{ j }}], rank{{ j }})], 1u);
                }
{% endfor %}
            }
            workgroupBarrier();
            let prefix = prefix_of(thread, subgroup, subgroups, lane, width);
            let found = pick(prefix, before, vec3(k, 0u, 0u), thread);
            cut = with_digit(cut, level, found.bin);
            before = found.before;
            if (found.after.x <= enough) {
                break;
            }
        }
        for (var i = thread; i < fours; i += THREADS) {
            let f = four(want, in_chunks, i);
{% for j in range(4) %}
            if (is_kept(cut, f.keys[{{ j }}], rank_of(f.tokens[{{ j }}]))) {
                let slot = atomicAdd(&length, 1u);
                if (in_chunks) {
                    candidates[slot] = vec2(f.keys[{{ j }}], f.tokens[{{ j }}]);
                } else {
                    chunks[slot] = 4u * i + {{ j }}u;
                }
            }
{% endfor %}
        }
        workgroupBarrier();
        fours = atomicLoad(&length) * EACH;
        workgroupBarrier();
    }
    return fours / EACH;
}
