{# One pass of a search for the cut that top-k or top-p makes: counts the tokens, or adds their
   weights, by the next digit. #}
{% include "sample/types.wgsl" %}
{% include "sample/logits.wgsl" %}
{% include "sample/numbers.wgsl" %}
{% include "sample/cut.wgsl" %}
@group(0) @binding(1) var<storage, read> rule: Rule;
@group(0) @binding(2) var<storage, read> before: Search;
@group(0) @binding(3) var<storage, read_write> after: Search;
@group(0) @binding(4) var<storage, read_write> bins: array<atomic<u32>>;

fn read_bin(i: u32) -> u32 {
    return atomicLoad(&bins[i]);
}

{% include "sample/search.wgsl" %}

var<workgroup> low: array<atomic<u32>, 2048>;
var<workgroup> high: array<atomic<u32>, 2048>;

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let thread = subgroup * width + lane;
    for (var i = thread; i < BINS; i += {{ threads }}u) {
        atomicStore(&low[i], 0u);
        atomicStore(&high[i], 0u);
    }
    let next = (before.stage + 1u) % 3u * REGION;
    for (var i = group.x * {{ threads }}u + thread; i < REGION; i += groups.x * {{ threads }}u) {
        atomicStore(&bins[next + i], 0u);
    }
    var search = resolved(thread, subgroup, subgroups, lane, width);
    workgroupBarrier();
    let level = search.stage % LEVELS;
    for (var turn = 0u; turn < {{ turns }}u; turn++) {
        let at = (group.x * {{ turns }}u + turn) * {{ threads }}u + thread;
        let four = keys(at);
{% for j in range(4) %}
        let rank{{ j }} = rank_of(4u * at + {{ j }}u);
        if (is_left(search.limit, four[{{ j }}], rank{{ j }})
            && is_beside(search.cut, level, four[{{ j }}], rank{{ j }})) {
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
    let region = search.stage % 3u * REGION;
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
        after = search;
    }
}
