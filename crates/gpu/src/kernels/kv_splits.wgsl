{# The KV splits of a row (flash-decoding): whole pages, as a function of its position. #}
// the first position that a query at `position` sees
fn first_visible(position: u32) -> u32 {
{% if window %}
    return position + 1u - min(position + 1u, {{ window }}u);
{% else %}
    return 0u;
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
