{# Looks at the digits that the last pass of a search counted. The histograms are three, used in
   turn: one is read, one written, and one cleared for the next pass. #}
const REGION = 2u * BINS;

fn bin(i: u32) -> vec3<u32> {
    let at = (before.stage + 2u) % 3u * REGION + 2u * i;
    return carried(vec3(read_bin(at), read_bin(at + 1u), 0u));
}

{% include "sample/pick.wgsl" %}
{% include "sample/enough.wgsl" %}

fn resolved(thread: u32, subgroup: u32, subgroups: u32, lane: u32, width: u32) -> Search {
    var s = before;
    if (s.pending == 0u) {
        return s;
    }
    let done = s.stage - 1u;
    let level = done % LEVELS;
    let share = share_of(thread, subgroup, subgroups, lane, width);
    if (level == 0u) {
        s.before = vec3(0u);
        if (done == 0u) {
            s.goal = carried(vec3(rule.top_k & 0xfffffu, rule.top_k >> 20u, 0u));
        } else {
            s.goal = enough_of(share.all);
        }
    }
    let found = pick(share, s.before, s.goal, thread);
    s.cut = with_digit(s.cut, level, found.bin);
    s.before = found.before;
    if (s.stage == LEVELS) {
        s.limit = s.cut;
        s.cut = Cut(0u, 0u);
    }
    return s;
}
