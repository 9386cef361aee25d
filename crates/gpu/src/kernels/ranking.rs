//! Rankings of tokens where the logits are: the likeliest allowed tokens of two parts of
//! the vocabulary, and the sums of exponentials. A row's results are some hundred bytes,
//! and its logits are 200 KB.

use std::sync::Arc;

use minijinja::context;
use pelton_graph::{Error, Ranking};

use crate::{
    device::{BufferList, Device, Kernel, KernelSource},
    kernels::template,
};

/// Threads of a workgroup.
const THREADS: usize = 256;
/// Logits of a thread, and of a workgroup.
const EACH: usize = 8;
const CHUNK: usize = THREADS * EACH;

/// A kernel with its buffers.
#[derive(Debug)]
struct Bound {
    kernel: Arc<Kernel>,
    bindings: wgpu::BindGroup,
}

/// The kernels and buffers of rankings of one vocabulary.
#[derive(Debug)]
pub(crate) struct RankingKernels {
    parts: Bound,
    merge: Bound,
    masks: wgpu::Buffer,
    ranking: wgpu::Buffer,
    ranked: wgpu::Buffer,
    chunks: u32,
    tokens: usize,
}

/// The ranking of a pass that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RankingCall {
    wants: u32,
    count: usize,
}

impl RankingCall {
    /// Bytes of the results.
    pub(crate) const fn bytes(&self) -> u64 {
        (4 * self.wants as usize * Ranking::width(self.count)) as u64
    }
}

/// The WGSL of both kernels.
fn sources_of(vocab: usize, tokens: usize) -> Result<[KernelSource; 2], Error> {
    let values = context! {
        vocab, tokens,
        words => tokens.div_ceil(32),
        chunk => CHUNK,
        chunks => vocab.div_ceil(CHUNK),
        each => EACH,
        threads => THREADS,
        most => Ranking::MOST,
    };
    Ok([
        template::render("ranking_parts.wgsl", values.clone())?,
        template::render("ranking_merge.wgsl", values)?,
    ])
}

/// Bytes of the masks, the ranking, the ranked tokens of chunks and those of rows.
fn sizes([vocab, tokens]: [usize; 2], wants: usize) -> [usize; 4] {
    let pairs = wants * vocab.div_ceil(CHUNK) * 16 * (1 + Ranking::MOST);
    [4 * wants * tokens.div_ceil(32), 8, pairs, 4 * wants * Ranking::width(Ranking::MOST)]
}

impl RankingKernels {
    /// Bytes that [`new`](Self::new) allocates.
    pub(crate) fn bytes(vocab_and_tokens: [usize; 2], wants: usize) -> u64 {
        sizes(vocab_and_tokens, wants).iter().map(|&bytes| bytes as u64).sum()
    }

    /// For rows of `logits` `[wants, vocab]`. Ids from `tokens` on are never ranked.
    pub(crate) fn new(
        device: &Device,
        logits: &wgpu::Buffer,
        [vocab, tokens]: [usize; 2],
        wants: usize,
    ) -> Result<Self, Error> {
        let chunks = vocab.div_ceil(CHUNK);
        let [masks, ranking, pairs, ranked] = sizes([vocab, tokens], wants);
        let buffer = |label: &str, bytes: usize| device.buffer(label, bytes as u64);
        let masks = buffer("masks of rankings", masks)?;
        let ranking = buffer("ranking", ranking)?;
        let pairs = buffer("ranked tokens of chunks", pairs)?;
        let ranked = buffer("ranked tokens", ranked)?;
        let all = [
            ("logits", logits),
            ("masks", &masks),
            ("ranking", &ranking),
            ("parts", &pairs),
            ("ranked", &ranked),
        ];
        let bound = |label: &str, source: &KernelSource| -> Result<Bound, Error> {
            let declares = |name: &str| source.bindings().iter().any(|of| of.name == name);
            let own = BufferList::of(all.iter().filter(|(name, _)| declares(name)).copied());
            let kernel = Arc::new(device.kernel(label, source)?);
            let bindings = device.bind(label, &kernel, &own.in_order(label, source)?)?;
            Ok(Bound { kernel, bindings })
        };
        let [parts, merge] = sources_of(vocab, tokens)?;
        let (parts, merge) = (bound("ranking_parts", &parts)?, bound("ranking_merge", &merge)?);
        Ok(Self { parts, merge, masks, ranking, ranked, chunks: chunks as u32, tokens })
    }

    /// Writes the inputs of a ranking of as many wants, which it checks first.
    pub(crate) fn prepare(
        &self,
        device: &Device,
        ranking: &Ranking<'_>,
        wants: usize,
    ) -> Result<RankingCall, Error> {
        ranking.check(wants, self.tokens)?;
        device.queue.write_buffer(&self.masks, 0, bytemuck::cast_slice(ranking.masks));
        let words = [ranking.split, ranking.count as u32];
        device.queue.write_buffer(&self.ranking, 0, bytemuck::cast_slice(&words));
        Ok(RankingCall { wants: wants as u32, count: ranking.count })
    }

    /// Records the kernels, after those that write the logits.
    pub(crate) fn record(&self, pass: &mut wgpu::ComputePass<'_>, call: &RankingCall) {
        let Self { parts, merge, .. } = self;
        parts.kernel.record(pass, &parts.bindings, [self.chunks, call.wants, 1]);
        merge.kernel.record(pass, &merge.bindings, [2, call.wants, 1]);
    }

    /// The results of the last ranking that was recorded.
    pub(crate) fn results(&self) -> &wgpu::Buffer {
        &self.ranked
    }
}

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    let of = |(vocab, tokens)| {
        let all = sources_of(vocab, tokens).unwrap();
        all.map(|source| (format!("ranks of {vocab}"), source))
    };
    [(50, 50), (51_866, 51_865)].into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{device, normals};

    /// Compared with a sort, with equal logits, banned tokens, NaN, and parts with
    /// fewer tokens than wanted.
    #[test]
    fn ranks_are_those_of_a_sort() {
        let Some(device) = device() else { return };
        for (vocab, tokens, split, count) in [
            (50usize, 50usize, 40usize, 3usize),
            (5000, 4990, 4500, 6),
            (5000, 5000, 4998, 33),
            (300, 300, 0, 1),
        ] {
            const WANTS: usize = 3;
            let mut logits = normals(7, WANTS * vocab);
            for at in (0..logits.len()).step_by(7) {
                logits[at] = [1.5, f32::NAN, 1.5, f32::NEG_INFINITY][at % 4];
            }
            let words = tokens.div_ceil(32);
            let masks: Vec<u32> = (0..WANTS * words)
                .map(|i| match i / words {
                    // the last row allows nothing
                    2 => 0,
                    _ => 0xdead_beefu32.rotate_left(i as u32),
                })
                .collect();
            let buffer = device.with(&logits);
            let ranks = RankingKernels::new(&device, &buffer, [vocab, tokens], WANTS).unwrap();
            let ranking = Ranking { masks: &masks, split: split as u32, count };
            let call = ranks.prepare(&device, &ranking, WANTS).unwrap();
            let mut encoder = device.device.create_command_encoder(&Default::default());
            let mut pass = encoder.begin_compute_pass(&Default::default());
            ranks.record(&mut pass, &call);
            drop(pass);
            device.queue.submit([encoder.finish()]);
            let got: Vec<f32> = device.content(ranks.results());
            for (row, got) in got.chunks(Ranking::width(count)).take(WANTS).enumerate() {
                let logit = |token: usize| logits[row * vocab + token];
                let allowed = |token: &usize| {
                    masks[row * words + token / 32] >> (token % 32) & 1 == 1
                        && logit(*token) > f32::NEG_INFINITY
                };
                for (part, range) in [0..split, split..tokens].into_iter().enumerate() {
                    let mut all: Vec<usize> = range.filter(allowed).collect();
                    all.sort_by(|&a, &b| logit(b).total_cmp(&logit(a)).then(a.cmp(&b)));
                    let got = &got[part * 2 * (1 + count)..][..2 * (1 + count)];
                    let expected: f64 =
                        all.iter().map(|&t| f64::from(logit(t) - logit(all[0])).exp()).sum();
                    let what = format!("{vocab} {row} {part}");
                    assert!(
                        (f64::from(got[1]) - expected).abs() <= 1e-5 * expected,
                        "{what}: {expected}"
                    );
                    for (i, pair) in got[2..].chunks(2).enumerate() {
                        match all.get(i) {
                            Some(&token) => {
                                assert_eq!(pair, [logit(token), token as f32], "{what} {i}")
                            }
                            None => assert_eq!(pair[1], -1.0, "{what} {i}"),
                        }
                    }
                }
            }
        }
    }
}
