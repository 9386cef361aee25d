{# Cuts through the tokens in the order of their likelihood, found digit by digit (radix select): 11,
   11 and 10 bits of the key, and for equal keys twice 11 bits of the token, the lowest id first. #}
const BINS = 2048u;
const LEVELS = 5u;
// a histogram: two words a bin
const REGION = 2u * BINS;

// The histogram of a want that stage `stage` of a search counts into. There are three, used in
// rotation: one is read, one is counted into, and one is cleared for the next stage.
fn bins_at(want: u32, stage: u32) -> u32 {
    return (want * 3u + stage % 3u) * REGION;
}

// Keeps tokens with a greater key, or this key and at least this rank.
struct Cut {
    key: u32,
    rank: u32,
}

// The state of a search for a cut through all logits; each stage counts by one digit.
struct Search {
    cut: Cut,
    // the cut of top-k
    limit: Cut,
    // the likeliest token's key
    greatest: u32,
    // the next stage: 0 to 4 for top-k, 5 to 9 for top-p
    stage: u32,
    // 1 where the last stage's histogram has not been read yet
    pending: u32,
    // the sum before the known digits, and the sum to be reached
    before: vec3<u32>,
    goal: vec3<u32>,
}

// The lowest token of equal keys comes first.
fn rank_of(token: u32) -> u32 {
    return 0x3fffffu - token;
}

fn is_kept(cut: Cut, key: u32, rank: u32) -> bool {
    return key != 0u && (key > cut.key || (key == cut.key && rank >= cut.rank));
}

// Whether the digits before `level` are those of the cut.
fn has_prefix(cut: Cut, level: u32, key: u32, rank: u32) -> bool {
    switch level {
        case 0u: { return key != 0u; }
        case 1u: { return key != 0u && (key ^ cut.key) >> 21u == 0u; }
        case 2u: { return key != 0u && (key ^ cut.key) >> 10u == 0u; }
        case 3u: { return key != 0u && key == cut.key; }
        default: { return key != 0u && key == cut.key && (rank ^ cut.rank) >> 11u == 0u; }
    }
}

fn digit(level: u32, key: u32, rank: u32) -> u32 {
    switch level {
        case 0u: { return key >> 21u; }
        case 1u: { return (key >> 10u) & 2047u; }
        case 2u: { return key & 1023u; }
        case 3u: { return rank >> 11u; }
        default: { return rank & 2047u; }
    }
}

fn with_digit(cut: Cut, level: u32, value: u32) -> Cut {
    switch level {
        case 0u: { return Cut(value << 21u, 0u); }
        case 1u: { return Cut(cut.key | (value << 10u), 0u); }
        case 2u: { return Cut(cut.key | value, 0u); }
        case 3u: { return Cut(cut.key, value << 11u); }
        default: { return Cut(cut.key, cut.rank | value); }
    }
}
