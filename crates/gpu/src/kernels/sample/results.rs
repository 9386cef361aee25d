//! Results of draws, as the kernels write them: `[repeat, wants, stride]` words.

use pelton_graph::MAX_REPEAT;
use pelton_sampling::{LOG_PROBS_MAX, LogProbs, LogSum, Sampled};

use super::call::{NONE, SampleCall, TOP_AT, stride};

/// The most bytes of the results of any pass.
pub(super) fn most_bytes(wants: usize) -> u64 {
    4 * (MAX_REPEAT as usize * wants * (TOP_AT + 2 * LOG_PROBS_MAX)) as u64
}

/// Bytes of the results of one pass.
pub(super) fn bytes(call: &SampleCall, repeat: u32) -> u64 {
    4 * (repeat as usize * call.wants * stride(call)) as u64
}

/// Appends the results `[repeat, wants]` of one pass, given the [`bytes`] of its results.
pub(super) fn parse(call: &SampleCall, repeat: u32, bytes: &[u8], out: &mut Vec<Sampled>) {
    let words = bytes.as_chunks().0;
    let results = words.chunks_exact(stride(call)).take(repeat as usize * call.wants);
    out.extend(results.map(|result| {
        let word = |i: usize| result.get(i).map_or(0, |&bytes| u32::from_le_bytes(bytes));
        let token = Some(word(0)).filter(|&token| token != NONE);
        let top = word(1).checked_sub(1).filter(|_| token.is_some());
        let log_probs = top.map(|top| {
            let sum = u64::from(word(4)) << 32 | u64::from(word(3));
            let log_sum = LogSum { greatest: f32::from_bits(word(2)), sum };
            let log_prob = |i: usize| log_sum.log_prob(f32::from_bits(word(i)));
            let pairs = (0..top as usize).map(|i| TOP_AT + 2 * i);
            LogProbs {
                drawn: log_prob(5),
                top: pairs
                    .take_while(|&at| word(at) != NONE)
                    .map(|at| (word(at), log_prob(at + 1)))
                    .collect(),
            }
        });
        Sampled { token, log_probs }
    }));
}
