{# State of a want that every pass advances on the GPU: passes that are recorded one after the other
   need nothing from the host. It is the index of the next token in its sequence, 64 bits; what else
   a pass advances follows from it. #}

// Passes since the host wrote the parameters, at the index `index`.
fn repeat_at(want: u32, index: vec2<u32>) -> u32 {
    return index.x - param(want, INDEX);
}

// Tokens of the history that are in the ring.
fn pending_at(want: u32, index: vec2<u32>) -> u32 {
    return param(want, PENDING) + repeat_at(want, index);
}

// The place of a want's result of repeat number `repeat`.
fn result_at(want: u32, repeat: u32) -> u32 {
    return (repeat * param(want, WANTS) + want) * param(want, RESULT_STRIDE);
}
