{# The choice of a row's live inputs, those of the greatest score |x| · ‖W‖ (WINA, arXiv 2505.19427), by
   radix selection over the bits of the scores; of equal scores the lowest inputs. The order of scores is
   that of their bits, so that NaN counts as the greatest, as in crates/cpu. The including file defines
   CANDIDATES, the inputs and, after them, the lower halves of their codes where these can be live apart,
   and THREADS. A key is a score of 31 bits and, for ties, CANDIDATES - 1 - candidate: digits of 11 and 10
   bits, then 11 and 10 bits. #}
const BINS = 2048u;
// `BINS` of them, and more if the including file needs them afterwards
var<workgroup> words: array<atomic<u32>, {{ word_count }}>;
var<workgroup> bin_totals: array<u32, {{ subgroups }}>;
// the digit of the last live key, the live keys with it, and all keys with it
var<workgroup> found: array<u32, 3>;

struct Threshold {
    score: u32,
    late: u32,
}

// Counts the keys of four candidates from `first` on that have the digits found so far.
fn count_keys(level: u32, scores: vec4<u32>, first: u32, least: Threshold) {
    if (level < 3u) {
        let before = array<u32, 3>(31u, 20u, 10u)[level];
        let digits = (scores >> vec4(array<u32, 3>(20u, 10u, 0u)[level])) & vec4(select(1023u, 2047u, level == 0u));
        let counts = (scores >> vec4(before)) == vec4(least.score >> before);
{% for c in ["x", "y", "z", "w"] %}
        if (counts.{{ c }}) {
            atomicAdd(&words[digits.{{ c }}], 1u);
        }
{% endfor %}
        return;
    }
    let late = vec4(CANDIDATES - 1u - first) - vec4(0u, 1u, 2u, 3u);
    let last = level == 4u;
    let digits = select(late >> vec4(10u), late & vec4(1023u), last);
    let same = (late >> vec4(10u)) == vec4(least.late >> 10u);
    let counts = (scores == vec4(least.score)) & (same | vec4(!last));
{% for c in ["x", "y", "z", "w"] %}
    if (counts.{{ c }}) {
        atomicAdd(&words[digits.{{ c }}], 1u);
    }
{% endfor %}
}

// The bits of the live ones of four candidates from `first` on.
fn live_ones(scores: vec4<u32>, first: u32, least: Threshold) -> u32 {
    let late = vec4(CANDIDATES - 1u - first) - vec4(0u, 1u, 2u, 3u);
    let ties = (scores == vec4(least.score)) & (late >= vec4(least.late));
    let live = (scores > vec4(least.score)) | ties;
    let ones = select(vec4(0u), vec4(1u, 2u, 4u, 8u), live);
    return ones.x | ones.y | ones.z | ones.w;
}

fn clear_bins(thread: u32) {
    for (var i = thread; i < BINS; i += THREADS) {
        atomicStore(&words[i], 0u);
    }
}

// Finds the bin of the last of `need` keys, counted from the greatest digit down.
fn find_bin(need: u32, thread: u32, subgroup: u32, lane: u32, width: u32) {
    var mine = 0u;
{% set each = (2048 + threads - 1) // threads %}
{% for j in range(each) %}
    let bin{{ j }} = BINS - 1u - min(thread * {{ each }}u + {{ j }}u, BINS - 1u);
    let keys{{ j }} = {{ "select(0u, atomicLoad(&words[bin%s]), thread * %su + %su < BINS)"|format(j, each, j) }};
    mine += keys{{ j }};
{% endfor %}
    var above = subgroupExclusiveAdd(mine);
    let total = subgroupAdd(mine);
    if (lane == 0u) {
        bin_totals[subgroup] = total;
    }
    workgroupBarrier();
    var earlier = 0u;
    for (var i = lane; i < subgroup; i += width) {
        earlier += bin_totals[i];
    }
    above += subgroupAdd(earlier);
    if (above < need && need <= above + mine) {
{% for j in range(each) %}
        if (above < need && need <= above + keys{{ j }}) {
            found[0] = bin{{ j }};
            found[1] = need - above;
            found[2] = keys{{ j }};
        }
        above += keys{{ j }};
{% endfor %}
    }
    workgroupBarrier();
}
