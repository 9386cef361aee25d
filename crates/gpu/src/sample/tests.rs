use pelton_sampling::{Sampler, Sampling};
use pelton_testing::Random;

use super::*;
use crate::testing::{device, normals};

/// A vocabulary on the device, with room for some tokens.
struct Bench {
    device: std::sync::Arc<Device>,
    sample: Sample,
    logits: wgpu::Buffer,
    rows: wgpu::Buffer,
    tokens: wgpu::Buffer,
}

const ROOM: usize = 64;

impl Bench {
    fn new(vocab: usize) -> Option<Self> {
        Some(Self::on(device()?, vocab))
    }

    fn on(device: std::sync::Arc<Device>, vocab: usize) -> Self {
        let logits = device.buffer("logits", 4 * vocab as u64).unwrap();
        let rows = device.buffer("rows", 32).unwrap();
        let tokens = device.buffer("tokens", 4 * ROOM as u64).unwrap();
        let around = Around { logits: &logits, rows: &rows, tokens: &tokens };
        let sample = Sample::new(&device, vocab, around).unwrap();
        Self { device, sample, logits, rows, tokens }
    }

    /// The next `n` tokens for the same logits.
    fn choose(&self, logits: &[f32], choice: &Choice, n: usize) -> Vec<u32> {
        let queue = &self.device.queue;
        queue.write_buffer(&self.logits, 0, bytemuck::cast_slice(logits));
        queue.write_buffer(&self.rows, 0, bytemuck::cast_slice(&[7u32, 100, 3, 0, 9, 9, 9, 9]));
        queue.write_buffer(&self.tokens, 0, bytemuck::cast_slice(&[0xBAD0_BAD0u32; ROOM]));
        let way = self.sample.begin(&self.device, choice);
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        for _ in 0..n {
            self.sample.record(&mut pass, way);
        }
        drop(pass);
        queue.submit([encoder.finish()]);
        let tokens: Vec<u32> = self.device.content(&self.tokens);
        assert!(tokens[n..].iter().all(|&token| token == 0xBAD0_BAD0), "{tokens:?}");
        let last = tokens[n - 1];
        let input = if last == u32::MAX { 0 } else { last };
        let rows: Vec<u32> = self.device.content(&self.rows);
        assert_eq!(rows, [input, 100 + n as u32, 3, 0, 9, 9, 9, 9]);
        let state: Vec<u32> = self.device.content(&self.sample.state);
        let index = choice.index + n as u64;
        assert_eq!(state[..3], [index as u32, (index >> 32) as u32, n as u32]);
        tokens[..n].to_vec()
    }

    /// Holds `n` choices against those of the processor.
    fn compare(&self, logits: &[f32], sampling: &Sampling, index: u64, n: usize) {
        let mut sampler = Sampler::new(sampling.clone());
        let Sampling { temperature, top_k, top_p, min_p, .. } = *sampling;
        let choice = Choice { temperature, top_k, top_p, min_p, seed: sampler.seed(), index };
        let expected: Vec<u32> = (index..index + n as u64)
            .map(|i| sampler.choose(logits, &[], i).unwrap_or(u32::MAX))
            .collect();
        assert_eq!(self.choose(logits, &choice, n), expected, "{} {sampling:?}", logits.len());
    }
}

/// Values on all sides of each border, for vocabularies of this size.
fn samplings(vocab: usize) -> Vec<Sampling> {
    let mut all = vec![Sampling::greedy(), Sampling::default()];
    for top_k in [0, 2, 7, 40, FEW, FEW + 1, vocab - 1, vocab + 1] {
        for (top_p, min_p, temperature) in [
            (1.0, 0.0, 1.0),
            (0.95, 0.05, 0.8),
            (0.5, 0.0, 3.0),
            (0.999, 1e-4, 0.1),
            (0.0, 0.0, 9.0),
        ] {
            all.push(Sampling { top_k, top_p, min_p, temperature, ..Sampling::default() });
        }
    }
    for (i, sampling) in all.iter_mut().enumerate() {
        sampling.seed = Some(0x1234_5678_9ABC_DEF0 ^ ((i as u64) << 31));
    }
    all
}

#[test]
fn same_choices_as_the_processor() {
    for vocab in [65, 1000, 4099, 150_003] {
        let Some(bench) = Bench::new(vocab) else { return };
        let narrow = normals(vocab as u64, vocab);
        let wide: Vec<f32> = narrow.iter().map(|v| 5.0 * v).collect();
        for (i, sampling) in samplings(vocab).iter().enumerate() {
            let logits = if i % 2 == 0 { &narrow } else { &wide };
            bench.compare(logits, sampling, i as u64, if vocab > 100_000 { 2 } else { 16 });
        }
    }
}

/// The choices of thousands of distributions.
#[test]
fn many_draws() {
    let vocab = 512;
    let Some(bench) = Bench::new(vocab) else { return };
    for seed in 0..80 {
        let deviation = [0.5, 2.0, 6.0][seed as usize % 3];
        let logits = Random::new(seed).normals(vocab, 0.0, deviation);
        let sampling = Sampling {
            top_k: [40, 0, 300][seed as usize / 3 % 3],
            seed: Some(seed),
            ..Sampling::default()
        };
        bench.compare(&logits, &sampling, 1000 * seed, ROOM);
    }
}

/// Equal logits: the lowest tokens count as the likeliest, also where all are equal.
#[test]
fn ties() {
    let vocab = 3000;
    let Some(bench) = Bench::new(vocab) else { return };
    let mut random = Random::new(5);
    for levels in [1, 2, 5] {
        let logits: Vec<f32> =
            (0..vocab).map(|_| random.below(levels) as f32 * 0.3 - 0.3).collect();
        let signs: Vec<f32> = logits
            .iter()
            .enumerate()
            .map(|(i, &v)| if i % 3 == 0 { v * -0.0 } else { v })
            .collect();
        for sampling in samplings(vocab) {
            bench.compare(&logits, &sampling, 3, 4);
            bench.compare(&signs, &sampling, 3, 4);
        }
    }
}

#[test]
fn hostile_logits() {
    let vocab = 1030;
    let Some(bench) = Bench::new(vocab) else { return };
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    let mixed = [nan, infinity, -infinity, 0.0, -0.0, f32::MAX, f32::MIN, 1e-40, -1e-40, 88.0];
    let repeated = |values: &[f32]| (0..vocab).map(|i| values[i % values.len()]).collect();
    let mut one = vec![nan; vocab];
    one[777] = -infinity;
    let all: [Vec<f32>; 8] = [
        repeated(&mixed),
        repeated(&mixed[2..]),
        repeated(&[nan]),
        repeated(&[-nan, -infinity]),
        repeated(&[-infinity]),
        repeated(&[1e-40, 0.0, -1e-40]),
        repeated(&[f32::MIN, f32::MAX, nan]),
        one,
    ];
    for logits in &all {
        for mut sampling in samplings(vocab) {
            bench.compare(logits, &sampling, 0, 2);
            sampling.temperature = [1e-30, 1e30][sampling.top_k % 2];
            bench.compare(logits, &sampling, 0, 2);
        }
    }
}

/// The index of a token has 64 bits.
#[test]
fn the_index_is_carried() {
    let Some(bench) = Bench::new(80) else { return };
    let sampling = Sampling { seed: Some(9), temperature: 5.0, ..Sampling::default() };
    bench.compare(&normals(1, 80), &sampling, u64::from(u32::MAX) - 3, 9);
}

/// Every likely token that lies in one chunk, so that a search gains nothing from the chunks.
#[test]
fn crowded_chunks() {
    let vocab = 20_000;
    let Some(bench) = Bench::new(vocab) else { return };
    let mut logits = normals(2, vocab);
    for i in (0..vocab).filter(|i| i / 4 % CHUNK_THREADS < 9) {
        logits[i] = 9.0 + logits[i] * 0.01;
    }
    for sampling in samplings(vocab) {
        bench.compare(&logits, &sampling, 1, 3);
    }
}

/// Not a test: prints how long a token takes. Run it alone, on the device that it is about.
#[test]
#[ignore = "a measurement"]
fn speed() {
    let adapter = crate::adapters().into_iter().next().unwrap();
    for vocab in [32_000, 128_256, 151_936, 262_144] {
        let bench = Bench::on(Device::open(&adapter, false).unwrap(), vocab);
        let logits: Vec<f32> = normals(1, vocab).iter().map(|v| 3.0 * v).collect();
        bench.device.queue.write_buffer(&bench.logits, 0, bytemuck::cast_slice(&logits));
        let all = Sampling { top_k: 0, ..Sampling::default() };
        for sampling in [
            Sampling::greedy(),
            Sampling::default(),
            Sampling { top_k: FEW, ..all.clone() },
            Sampling { top_p: 1.0, ..all.clone() },
            all.clone(),
            Sampling { top_k: 5000, ..all },
        ] {
            let Sampling { temperature, top_k, top_p, min_p, .. } = sampling;
            let choice = Choice { temperature, top_k, top_p, min_p, seed: 1, index: 0 };
            let time = |n: usize| {
                let way = bench.sample.begin(&bench.device, &choice);
                let mut encoder = bench.device.device.create_command_encoder(&Default::default());
                let mut pass = encoder.begin_compute_pass(&Default::default());
                (0..n).for_each(|_| bench.sample.record(&mut pass, way));
                drop(pass);
                let commands = encoder.finish();
                let begun = std::time::Instant::now();
                bench.device.queue.submit([commands]);
                bench.device.wait().unwrap();
                begun.elapsed().as_secs_f64()
            };
            let least = |n| (0..7).map(|_| time(n)).fold(f64::INFINITY, f64::min);
            // what a submission costs is in both
            let each = (least(ROOM) - least(ROOM / 4)) / (ROOM * 3 / 4) as f64;
            println!("{vocab} top-k {top_k} top-p {top_p} at {temperature}: {:.1} µs", each * 1e6);
        }
    }
}
