{# One stage of a search for the cut of top-k or top-p: counts the tokens, or adds their weights, by
   the next digit. #}
{% extends "sample/kernel.wgsl" %}
{% block declarations %}
{% include "sample/params.wgsl" %}
{% include "sample/logits.wgsl" %}
{% include "sample/numbers.wgsl" %}
{% include "sample/cut.wgsl" %}
var<storage, read> before: array<Search>;
var<storage, read_write> after: array<Search>;
var<storage, read_write> bins: array<atomic<u32>>;

fn read_bin(i: u32) -> u32 {
    return atomicLoad(&bins[i]);
}

{% include "sample/resolve.wgsl" %}

var<workgroup> low: array<atomic<u32>, 2048>;
var<workgroup> high: array<atomic<u32>, 2048>;
{% endblock %}
{% block body %}
    if (param(want, KIND) != MANY) {
        return;
    }
    // another want of the pass may need more stages
    if (before[want].stage >= param(want, STAGES)) {
        if (group.x == 0u && thread == 0u) {
            after[want] = before[want];
        }
        return;
    }
    begin_logits(want);
    for (var i = thread; i < BINS; i += {{ threads }}u) {
        atomicStore(&low[i], 0u);
        atomicStore(&high[i], 0u);
    }
    let next = bins_at(want, before[want].stage + 1u);
    for (var i = group.x * {{ threads }}u + thread; i < REGION; i += {{ groups * threads }}u) {
        atomicStore(&bins[next + i], 0u);
    }
    var search = resolved(want, thread, subgroup, subgroups, lane, width);
    workgroupBarrier();
    let level = search.stage % LEVELS;
    for (var iteration = 0u; iteration < {{ iterations }}u; iteration++) {
        let at = (group.x * {{ iterations }}u + iteration) * {{ threads }}u + thread;
        let four = keys(at);
{% for j in range(4) %}
        let rank{{ j }} = rank_of(4u * at + {{ j }}u);
        if (is_kept(search.limit, four[{{ j }}], rank{{ j }})
            && has_prefix(search.cut, level, four[{{ j }}], rank{{ j }})) {
            var amount = 1u;
            if (search.stage >= LEVELS) {
                amount = weight(natural(search.greatest, four[{{ j }}]));
            }
            if (amount != 0u) {
                let d = digit(level, four[{{ j }}], rank{{ j }});
                atomicAdd(&low[d], amount & 0xfffffu);
                atomicAdd(&high[d], amount >> 20u);
            }
        }
{% endfor %}
    }
    workgroupBarrier();
    let region = bins_at(want, search.stage);
    for (var i = thread; i < BINS; i += {{ threads }}u) {
        let sum = carried(vec3(atomicLoad(&low[i]), atomicLoad(&high[i]), 0u));
        if (sum.x != 0u) {
            atomicAdd(&bins[region + 2u * i], sum.x);
        }
        if ((sum.y | sum.z) != 0u) {
            atomicAdd(&bins[region + 2u * i + 1u], sum.y | (sum.z << 20u));
        }
    }
    if (group.x == 0u && thread == 0u) {
        search.stage += 1u;
        search.pending = 1u;
        after[want] = search;
    }
{% endblock %}
