//! Merges of byte-pair encoding, rebuilt from the ranks of tokens.

use std::collections::HashMap;

/// The merge that makes each token: its two parts, in the order of ranks, which are the ids.
///
/// A token is split into bytes, and the pair of parts that make the token of the lowest rank is
/// merged until only pairs of the token's own rank or a higher one are left. Two parts are left of
/// all tokens that training by merges has made; others have no merge.
pub(super) fn of_ranks<'a>(tokens: &[&'a [u8]]) -> Vec<(&'a [u8], &'a [u8])> {
    let ranks: HashMap<&[u8], usize> =
        tokens.iter().enumerate().map(|(rank, token)| (*token, rank)).collect();
    let mut merges = Vec::with_capacity(tokens.len());
    for (rank, token) in tokens.iter().enumerate() {
        if let [left, right] = parts(token, rank, &ranks).as_slice()
            && let (Some(left), Some(right)) = (token.get(..*left), token.get(*left..*right))
        {
            merges.push((left, right));
        }
    }
    merges
}

/// The ends of the parts that merges of ranks below `rank` make of a token.
fn parts(token: &[u8], rank: usize, ranks: &HashMap<&[u8], usize>) -> Vec<usize> {
    let mut ends: Vec<usize> = (1..=token.len()).collect();
    let start = |ends: &[usize], part: usize| if part == 0 { 0 } else { ends[part - 1] };
    // The rank of the token that a part and the next one make.
    let joined = |ends: &[usize], part: usize| {
        let pair = &token[start(ends, part)..*ends.get(part + 1)?];
        ranks.get(pair).copied().filter(|found| *found < rank)
    };
    let mut pairs: Vec<Option<usize>> = (0..ends.len()).map(|part| joined(&ends, part)).collect();
    loop {
        let best = (0..pairs.len()).filter_map(|part| Some((pairs[part]?, part))).min();
        let Some((_, part)) = best else { return ends };
        ends.remove(part);
        pairs.remove(part);
        for changed in part.saturating_sub(1)..=part {
            if let Some(pair) = pairs.get_mut(changed) {
                *pair = joined(&ends, changed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranks of the paper's example (Sennrich et al., 2016), where "lowest" takes three merges.
    #[test]
    fn parts_have_lower_ranks() {
        let words: [&[u8]; 9] = [b"e", b"l", b"o", b"s", b"t", b"w", b"es", b"est", b"lo"];
        let merges = of_ranks(&words);
        let expected: [(&[u8], &[u8]); 3] = [(b"e", b"s"), (b"es", b"t"), (b"l", b"o")];
        assert_eq!(merges, expected);
        // No merge of lower ranks leads to "low" before "lo" is known.
        assert_eq!(of_ranks(&[b"l", b"o", b"w", b"low"]), []);
    }
}
