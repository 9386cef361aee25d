{# Makes the chosen token the input of the next pass: so that passes that were recorded one after
   the other need nothing from the host. Where no logit was a number the token is u32::MAX, for the
   host to see, and 0 for the next pass, which must stay within the table of tokens. #}
fn record(best: vec2<u32>) {
    let found = best.x != 0u;
    tokens[state.next] = select(0xffffffffu, best.y, found);
    state.next += 1u;
    rows[0].x = select(0u, best.y, found);
    rows[0].y += 1u;
    state.index_low += 1u;
    state.index_high += select(0u, 1u, state.index_low == 0u);
}
