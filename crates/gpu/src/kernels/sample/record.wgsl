{# The end of a draw. The drawn token becomes the input of the row's next pass, by way of the ring of
   sampled tokens [slots, RECENT]: passes that are recorded one after the other need nothing from the
   host. Where every logit was NaN the result is NONE, and the next pass gets token 0, which is in
   the table of tokens. #}
const RECENT = {{ recent }}u;

fn record(want: u32, best: vec2<u32>) {
    let found = best.x != 0u;
    let row = param(want, ROW);
    let position = rows[row].y;
    let slot = rows[row].z;
    recent[slot * RECENT + (position + 1u) % RECENT] = select(0u, best.y, found);
    rows[row].x = NONE;
    rows[row].y = position + 1u;
    let before = state[want];
    let result = result_at(want, repeat_at(want, before));
    results[result] = select(NONE, best.y, found);
    if (param(want, RESULT_STRIDE) > 1u) {
        results[result + 1u] = param(want, LOG_PROBS);
    }
    let carry = select(0u, 1u, before.x == 0xffffffffu);
    state[want] = before + vec2(1u, carry);
}
