{# The sum over the threads of a workgroup, in an order that the width of subgroups decides. All
   threads call it, with `partial_sums` in workgroup memory for each subgroup. #}
var<workgroup> partial_sums: array<f32, {{ threads }}>;

fn workgroup_sum(value: f32, subgroup: u32, subgroups: u32, lane: u32) -> f32 {
    let sum = subgroupAdd(value);
    if (lane == 0u) {
        partial_sums[subgroup] = sum;
    }
    workgroupBarrier();
    var all = 0.0;
    for (var i = 0u; i < subgroups; i++) {
        all += partial_sums[i];
    }
    workgroupBarrier();
    return all;
}
