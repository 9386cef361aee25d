{# The positions that a query sees, and the KV splits of a row (flash-decoding): whole pages, as a
   function of its position. A row is its token, position, slot, and the number of positions of its
   sequence in a pass of whole sequences. #}
{% if grouped %}
// A row with the numbers of positions of its group before it and after it, in place of its token and
// of the length of its sequence.
fn seen_row(i: u32) -> vec4<u32> {
    let row = rows[i];
    let group = places[2u * i + 1u];
    return vec4(group.x, row.y, row.z, group.y);
}

{% endif %}
// the first position that the query of a row sees
fn first_visible(row: vec4<u32>) -> u32 {
{% if grouped == "alone" %}
    return row.y - row.x;
{% elif chunk %}
    return row.y / {{ chunk }}u * {{ chunk }}u;
{% elif symmetric and window is not none %}
    return row.y - min(row.y, {{ window // 2 }}u);
{% elif window is not none and not symmetric %}
    return row.y + 1u - min(row.y + 1u, {{ window }}u);
{% else %}
    return 0u;
{% endif %}
}

// the last position that it sees
fn last_visible(row: vec4<u32>) -> u32 {
{% if grouped %}
    return row.y + row.w;
{% elif encoded %}
    return {{ encoded - 1 }}u;
{% elif symmetric %}
    return {{ "min(max(row.w, 1u) - 1u, row.y + %su)"|format(window // 2) if window is not none else "max(row.w, 1u) - 1u" }};
{% else %}
    return row.y;
{% endif %}
}

// Pages of each split of a row that sees `pages` pages.
fn split_pages(pages: u32) -> u32 {
    if (pages <= {{ one_split }}u) {
        return pages;
    }
    let count = min(pages, {{ most_splits }}u);
    return (pages + count - 1u) / count;
}
