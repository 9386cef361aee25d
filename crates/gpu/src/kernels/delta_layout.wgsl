// A row of packed operands: keys, queries, values, a factor of the state and a gate for each value head.
const KEYS = KEY_HEADS * KEY_DIM;
const VALUES = 2u * KEYS;
const FACTORS = VALUES + VALUE_HEADS * VALUE_DIM;
const STRIDE = FACTORS + 2u * VALUE_HEADS;
