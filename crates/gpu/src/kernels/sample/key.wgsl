{# Logits as integers. #}
// An integer whose order is that of the logits, equal for -0 and 0; 0 for NaN.
fn key_of(bits: u32) -> u32 {
    let positive = select(bits, 0u, bits == 0x80000000u);
    let key = select(positive | 0x80000000u, ~positive, (positive >> 31u) == 1u);
    return select(key, 0u, (bits & 0x7fffffffu) > 0x7f800000u);
}

fn logit_bits(key: u32) -> u32 {
    return select(~key, key & 0x7fffffffu, (key >> 31u) == 1u);
}
