//! The likeliest tokens of a row.

/// The ids of the `n` greatest logits above -∞, in descending order, ties to the lower id.
pub(crate) fn likeliest(logits: &[f32], n: usize) -> Vec<u32> {
    let mut best: Vec<(f32, u32)> = Vec::with_capacity(n + 1);
    let mut least = f32::NEG_INFINITY;
    for (id, &logit) in (0..).zip(logits) {
        // false for NaN
        if logit > least {
            let at = best.partition_point(|&(other, _)| other >= logit);
            best.insert(at, (logit, id));
            if best.len() > n {
                best.pop();
            }
            if let (true, Some(&(last, _))) = (best.len() == n, best.last()) {
                least = last;
            }
        }
    }
    best.into_iter().map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_ties() {
        let logits = [1.0, f32::NAN, 3.0, 1.0, f32::NEG_INFINITY, 2.0];
        assert_eq!(likeliest(&logits, 2), [2, 5]);
        assert_eq!(likeliest(&logits, 3), [2, 5, 0]);
        assert_eq!(likeliest(&logits, 9), [2, 5, 0, 3]);
        assert_eq!(likeliest(&logits, 0), []);
    }
}
