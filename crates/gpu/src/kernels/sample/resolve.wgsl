{# The next digit of a search's cut, from the histogram that the last stage counted. The including
   file defines `before`, the searches, and `fn read_bin(i: u32) -> u32`. #}
var<private> histogram: u32;

fn bin(i: u32) -> vec3<u32> {
    return carried(vec3(read_bin(histogram + 2u * i), read_bin(histogram + 2u * i + 1u), 0u));
}

{% include "sample/pick.wgsl" %}
{% include "sample/enough.wgsl" %}

fn resolved(
    want: u32,
    thread: u32,
    subgroup: u32,
    subgroups: u32,
    lane: u32,
    width: u32,
) -> Search {
    var s = before[want];
    if (s.pending == 0u) {
        return s;
    }
    let done = s.stage - 1u;
    histogram = bins_at(want, done);
    let level = done % LEVELS;
    let prefix = prefix_of(thread, subgroup, subgroups, lane, width);
    if (level == 0u) {
        s.before = vec3(0u);
        if (done == 0u) {
            let top_k = param(want, TOP_K);
            s.goal = carried(vec3(top_k & 0xfffffu, top_k >> 20u, 0u));
        } else {
            s.goal = enough_of(prefix.all, param(want, TOP_P));
        }
    }
    let found = pick(prefix, s.before, s.goal, thread);
    s.cut = with_digit(s.cut, level, found.bin);
    s.before = found.before;
    if (s.stage == LEVELS) {
        s.limit = s.cut;
        s.cut = Cut(0u, 0u);
    }
    return s;
}
