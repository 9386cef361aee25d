//! Resampling to 16,000 samples a second.

use crate::SAMPLE_RATE;
use rubato::audioadapter_buffers::direct::SequentialSlice;
use rubato::{Fft, FixedSync, Resampler as _, WindowFunction};

/// Least length of the filter in samples of either rate: it leaves 98 % of the lower band.
const FILTER: usize = 2048;

/// A resampler of one channel from a constant rate, by filtering in the frequency domain.
///
/// The output is aligned to the input: sample `k` is the signal at `k / 16,000` seconds. `n` input
/// samples give `⌈n · 16,000 / rate⌉` output samples, whatever the lengths of the chunks.
pub(crate) struct Resampler {
    fft: Fft<f32>,
    rate: u64,
    /// Input samples that do not fill a block.
    pending: Vec<f32>,
    /// Samples of a block of input.
    block: usize,
    output: Vec<f32>,
    /// Output samples of the filter's delay that are still to be dropped.
    delay: usize,
    taken: u64,
    given: u64,
}

impl Resampler {
    /// A resampler from `rate` samples a second, 1,000 to 768,000. `None` if there is none.
    pub(crate) fn new(rate: u32) -> Option<Self> {
        let divisor = gcd(rate, SAMPLE_RATE);
        let (unit_in, unit_out) = ((rate / divisor) as usize, (SAMPLE_RATE / divisor) as usize);
        // An even number of units has its centre on a sample of either rate, so the delay is exact.
        let units = FILTER.div_ceil(unit_in.min(unit_out)).next_multiple_of(2);
        let fft = Fft::new_custom(
            rate as usize,
            SAMPLE_RATE as usize,
            units * unit_in,
            1,
            1,
            WindowFunction::BlackmanHarris2,
            FixedSync::Both,
        )
        .ok()?;
        let (block, out) = (fft.input_frames_next(), fft.output_frames_next());
        let delay = fft.output_delay();
        Some(Self {
            fft,
            rate: u64::from(rate),
            pending: Vec::with_capacity(block),
            block,
            output: vec![0.0; out],
            delay,
            taken: 0,
            given: 0,
        })
    }

    /// Appends the output of `input` to `out`, as far as it is known.
    pub(crate) fn push(&mut self, mut input: &[f32], out: &mut Vec<f32>) {
        self.taken += input.len() as u64;
        while !input.is_empty() {
            let take = input.len().min(self.block - self.pending.len());
            self.pending.extend_from_slice(&input[..take]);
            input = &input[take..];
            if self.pending.len() == self.block {
                self.run(u64::MAX, out);
            }
        }
    }

    /// Appends what is left at the end of the input.
    pub(crate) fn finish(&mut self, out: &mut Vec<f32>) {
        let total = (self.taken * u64::from(SAMPLE_RATE)).div_ceil(self.rate);
        while self.given < total {
            self.pending.resize(self.block, 0.0);
            self.run(total, out);
        }
    }

    /// Runs the pending block and appends its output, up to a total number of output samples.
    fn run(&mut self, total: u64, out: &mut Vec<f32>) {
        let length = self.output.len();
        // Both adapters have exactly the lengths that the resampler states, so nothing here can
        // fail.
        let input = SequentialSlice::new(&self.pending, 1, self.block);
        let output = SequentialSlice::new_mut(&mut self.output, 1, length);
        if let (Ok(input), Ok(mut output)) = (input, output) {
            let _ = self.fft.process_into_buffer(&input, &mut output, None);
        }
        self.pending.clear();
        let skip = self.delay.min(length);
        self.delay -= skip;
        let rest = usize::try_from(total - self.given).unwrap_or(usize::MAX);
        let kept = &self.output[skip..];
        let kept = &kept[..kept.len().min(rest)];
        self.given += kept.len() as u64;
        out.extend_from_slice(kept);
    }
}

fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
