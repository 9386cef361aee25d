{# State of a want that every pass advances on the GPU: passes that are recorded one after the other
   need nothing from the host. #}
struct State {
    // the index of the next token in its sequence, 64 bits
    index: vec2<u32>,
    // tokens of the history that are in the ring
    pending: u32,
    // passes since the host wrote the state
    repeat: u32,
}

// The place of a want's result of repeat number `repeat`.
fn result_at(want: u32, repeat: u32) -> u32 {
    return (repeat * param(want, WANTS) + want) * param(want, RESULT_STRIDE);
}
