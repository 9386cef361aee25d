{# What the host writes (rule), and what the device keeps from token to token (state). #}
struct Rule {
    seed: vec2<u32>,
    top_k: u32,
    top_p: u32,
    reach: u32,
    mantissa: u32,
    exponent: i32,
}

struct State {
    // the number of the next token in its sequence
    index_low: u32,
    index_high: u32,
    // where it goes in tokens
    next: u32,
}
