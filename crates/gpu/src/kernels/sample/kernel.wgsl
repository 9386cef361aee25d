{# The frame of a sampling kernel. Workgroups of one want are along x, wants along y. #}
{% block declarations %}{% endblock %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) width: u32,
) {
    let thread = subgroup * width + lane;
    let want = group.y;
{% block body %}{% endblock %}
}
