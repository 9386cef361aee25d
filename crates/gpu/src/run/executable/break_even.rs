//! The length from which on a prompt is faster with streamed weights than as rows of decoding
//! passes.

use std::time::{Duration, Instant};

use pelton_graph::{Error, Plan};

use super::host::{Host, pass_of};
use crate::{
    device::Device,
    lower::{
        choices::{Choices, Known},
        dispatch::EXACT_ROWS,
    },
};

/// The longest prompt that is not streamed.
const MOST: usize = 1 << 10;

impl Host {
    /// The length, a power of two. Another length can give another text, so it is `kept` by the
    /// [key](pelton_graph::Backend::rates_key) of the host, which has its threads. A host without a
    /// key is measured at each load.
    pub(super) fn break_even(
        &mut self,
        device: &Device,
        plan: &Plan,
        kept: Option<(&Choices, &str)>,
    ) -> Result<usize, Error> {
        let bytes: usize =
            plan.host_parts().iter().zip(&plan.weights).fold(0, |sum, (part, of)| {
                sum + part.map_or(0, |_| of.dtype.bytes_of(of.len()).unwrap_or(0))
            });
        let parts = self.parts.len();
        let key = |host| format!("stream {parts} parts of {bytes} bytes, {host}");
        if let Some([tokens, _]) = kept.and_then(|(choices, host)| choices.get(&key(host))) {
            return Ok(tokens);
        }
        let rows = self.rows.len().clamp(1, EXACT_ROWS);
        let (streamed, decoded) = (self.stream_time(device)?, self.decode_time(plan, rows)?);
        let tokens = power_below(rows as f64 * streamed.as_secs_f64() / decoded.as_secs_f64());
        tracing::info!(?streamed, rows, ?decoded, tokens, "prompts that stream weights");
        if let Some((choices, host)) = kept
            && let Err(error) = choices.add(Known::from([(key(host), [tokens, 0])]))
        {
            let file = choices.file().display();
            tracing::warn!(%error, %file, "choices of kernels were not saved");
        }
        Ok(tokens)
    }

    /// The time in which all weights go to the GPU, the faster one of two: the first may
    /// read them from a disk.
    fn stream_time(&mut self, device: &Device) -> Result<Duration, Error> {
        let mut best = Duration::MAX;
        for _ in 0..2 {
            let begun = Instant::now();
            self.stream.begin(device)?;
            for part in 0..self.parts.len() {
                self.stream.part(device, part)?;
            }
            device.wait()?;
            best = best.min(begun.elapsed());
        }
        Ok(best)
    }

    /// The time of a decoding pass of so many rows, the faster one of two.
    fn decode_time(&mut self, plan: &Plan, rows: usize) -> Result<Duration, Error> {
        // unlike rows, so that experts are chosen as by those of a text
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        self.values.fill_with(&mut next);
        let mut best = Duration::MAX;
        for _ in 0..2 {
            let begun = Instant::now();
            for (part, executable) in plan.host.iter().zip(&mut self.parts) {
                let len = rows * plan.buffer(part.entry).width;
                let ticket =
                    executable.submit(&pass_of(&self.rows[..rows], &self.values[..len]))?;
                executable.take(ticket)?;
            }
            best = best.min(begun.elapsed());
        }
        Ok(best)
    }
}

/// The greatest power of two that is at most `tokens`; 0 if that is less than 2, as no prompt is
/// shorter than a token.
fn power_below(tokens: f64) -> usize {
    // a cast from a float saturates
    match tokens.min(MOST as f64) as usize {
        0 | 1 => 0,
        most => 1 << most.ilog2(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_powers_of_two() {
        for (tokens, expected) in [
            (0.0, 0),
            (1.9, 0),
            (2.0, 2),
            (47.9, 32),
            (64.0, 64),
            (1e9, MOST),
            (f64::INFINITY, MOST),
            (f64::NAN, MOST),
        ] {
            assert_eq!(power_below(tokens), expected, "{tokens}");
        }
    }
}
