{# The sum of a value over the lanes of a subgroup. Where the width is known, lanes are added pairwise,
   neighbours first: the order in which matvec_rows.wgsl adds several values at once. #}
fn sum_of_lanes(value: f32) -> f32 {
{% if fixed_width %}
    var sum = value;
{% for power in range(7) if 2 ** power < fixed_width %}
    sum += subgroupShuffleXor(sum, {{ 2 ** power }}u);
{% endfor %}
    return sum;
{% else %}
    return subgroupAdd(value);
{% endif %}
}
