use pelton_graph::{Input, Phase, RECENT, Row, Sample as SampleWant, Want};
use pelton_sampling::{Draw, Sampler, Sampling};
use pelton_testing::Random;

use super::{params::FEW, shape::CHUNK_THREADS, *};
use crate::{
    device::Checks,
    testing::{device, normals},
};

/// The content of the rows in place of a token that was sampled.
const SAMPLED: u32 = u32::MAX;

/// One want with the logits of its row.
#[derive(Clone, Debug, Default)]
struct Ask {
    logits: Vec<f32>,
    sampling: Sampling,
    index: u64,
    bias: Vec<(u32, f32)>,
    mask: Option<Vec<u32>>,
    log_probs: Option<u8>,
    recent: Vec<u32>,
    pending: u32,
    position: u32,
}

impl Ask {
    fn new(logits: &[f32], sampling: &Sampling, index: u64) -> Self {
        let (logits, sampling) = (logits.to_vec(), sampling.clone());
        Self { logits, sampling, index, position: 100, ..Self::default() }
    }

    fn draw(&self) -> Draw<'_> {
        Draw {
            params: self.sampling.params(),
            penalties: self.sampling.penalties(),
            seed: self.sampling.seed.unwrap(),
            index: self.index,
            bias: &self.bias,
            mask: self.mask.as_deref(),
            log_probs: self.log_probs,
        }
    }
}

/// A vocabulary on the GPU, with room for some wants.
struct Bench {
    device: std::sync::Arc<Device>,
    sample: Sample,
    vocab: usize,
    tokens: usize,
    /// The logits as a model writes them, and as sampling changes them.
    raw: wgpu::Buffer,
    logits: wgpu::Buffer,
    rows: wgpu::Buffer,
    recent: wgpu::Buffer,
}

impl Bench {
    fn new(vocab: usize, tokens: usize, wants: usize) -> Option<Self> {
        Some(Self::on(device()?, vocab, tokens, wants))
    }

    fn on(device: std::sync::Arc<Device>, vocab: usize, tokens: usize, wants: usize) -> Self {
        let buffer = |bytes| device.buffer("test", bytes as u64).unwrap();
        let (raw, logits) = (buffer(4 * vocab * wants), buffer(4 * vocab * wants));
        let (rows, recent) = (buffer(16 * 2 * wants), buffer(4 * RECENT * wants));
        let buffers = SampleBuffers { logits: &logits, recent: &recent, rows: &rows };
        let sample = Sample::new(&device, vocab, tokens, wants, 40, buffers).unwrap();
        Self { device, sample, vocab, tokens, raw, logits, rows, recent }
    }

    /// Compares the draws, the rows and the ring of sampled tokens after `repeat` passes with those
    /// of the CPU.
    fn compare(&mut self, asks: &[Ask], repeat: u32) {
        let wants = asks.len();
        let mut random = Random::new(wants as u64);
        let mut ring: Vec<u32> =
            (0..RECENT * wants).map(|_| random.below(self.tokens) as u32).collect();
        // every other row has no want, and slots are in another order than rows
        let slot = |i: usize| wants - 1 - i;
        let mut rows: Vec<Row> = Vec::new();
        for (i, ask) in asks.iter().enumerate() {
            let row = Row { input: Input::Sampled, position: ask.position, slot: slot(i) as u32 };
            rows.extend([row, Row { input: Input::Token(5), ..row }]);
        }
        let samples: Vec<SampleWant<'_>> = (0..)
            .zip(asks)
            .map(|(i, ask)| SampleWant {
                row: 2 * i + i % 2,
                draw: ask.draw(),
                recent: &ask.recent,
                pending: ask.pending,
            })
            .collect();
        // logits of the same row are wanted too by some
        let wants_list: Vec<Want<'_>> = samples
            .iter()
            .enumerate()
            .flat_map(|(i, &sample)| {
                let logits = (i % 3 == 1).then_some(Want::Logits { row: sample.row });
                [logits, Some(Want::Sample(sample))].into_iter().flatten()
            })
            .collect();
        let pass = Pass { repeat, ..Pass::new(Phase::Decode, &rows, &wants_list) };
        let got = self.run(&pass, &ring, asks);

        let mut expected = Vec::new();
        let mut sampler = Sampler::new();
        let mut histories: Vec<Vec<u32>> = asks
            .iter()
            .enumerate()
            .map(|(i, ask)| {
                let pending = (0..ask.pending)
                    .rev()
                    .map(|back| ring[slot(i) * RECENT + (ask.position - back) as usize % RECENT]);
                ask.recent.iter().copied().chain(pending).collect()
            })
            .collect();
        for step in 0..repeat {
            for (i, ask) in asks.iter().enumerate() {
                let index = ask.index + u64::from(step);
                let draw = Draw { index, ..ask.draw() };
                let sampled = sampler.sample(&ask.logits, self.tokens, &draw, &histories[i]);
                let token = sampled.token.unwrap_or(0);
                histories[i].push(token);
                ring[slot(i) * RECENT + (ask.position + step + 1) as usize % RECENT] = token;
                expected.push(sampled);
            }
        }
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let sampling = &asks[i % wants].sampling;
            assert_eq!(got, expected, "want {i} of {wants}, {}: {sampling:?}", self.vocab);
        }
        assert_eq!(got.len(), expected.len());
        let on_gpu: Vec<u32> = self.device.content(&self.recent);
        assert!(on_gpu[..ring.len()] == ring, "the rings of sampled tokens differ");
        let on_gpu: Vec<[u32; 4]> = self.device.content(&self.rows);
        for (i, (row, got)) in rows.iter().zip(on_gpu).enumerate() {
            let sampled = pass.wants.iter().any(|want| want.row() as usize == i);
            let moved =
                if sampled { [SAMPLED, row.position + repeat] } else { [token(row), row.position] };
            assert_eq!(got, [moved[0], moved[1], row.slot, 0]);
        }
    }

    fn run(&mut self, pass: &Pass<'_>, ring: &[u32], asks: &[Ask]) -> Vec<Sampled> {
        let write = |buffer: &wgpu::Buffer, words: &[u32]| {
            self.device.queue.write_buffer(buffer, 0, bytemuck::cast_slice(words));
        };
        let logits: Vec<f32> = asks.iter().flat_map(|ask| ask.logits.iter().copied()).collect();
        assert_eq!(logits.len(), self.vocab * asks.len());
        self.device.queue.write_buffer(&self.raw, 0, bytemuck::cast_slice(&logits));
        write(&self.recent, ring);
        let rows: Vec<[u32; 4]> =
            pass.rows.iter().map(|row| [token(row), row.position, row.slot, 0]).collect();
        write(&self.rows, bytemuck::cast_slice(&rows));
        write(self.sample.results(), &vec![0xBAD0_BAD0; self.sample.results().size() as usize / 4]);
        let call = self.sample.prepare(&self.device, pass);
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        for _ in 0..pass.repeat {
            encoder.copy_buffer_to_buffer(&self.raw, 0, &self.logits, 0, self.raw.size());
            let mut compute = encoder.begin_compute_pass(&Default::default());
            self.sample.record(&mut compute, &call);
        }
        self.device.queue.submit([encoder.finish()]);
        let words: Vec<u32> = self.device.content(self.sample.results());
        let used = self.sample.result_bytes(&call, pass.repeat) as usize / 4;
        assert!(words[used..].iter().all(|&word| word == 0xBAD0_BAD0));
        let mut sampled = Vec::new();
        self.sample.parse(&call, pass.repeat, bytemuck::cast_slice(&words[..used]), &mut sampled);
        sampled
    }
}

fn token(row: &Row) -> u32 {
    match row.input {
        Input::Token(token) => token,
        Input::Sampled | Input::Drafted(_) => SAMPLED,
        Input::Features | Input::Embedding(_) => panic!("a row without a token"),
    }
}

/// Options on both sides of each border, for vocabularies of this size.
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
            let sampling = Sampling::default().top_k(top_k).top_p(top_p).min_p(min_p);
            all.push(sampling.temperature(temperature));
        }
    }
    let seed = |i: usize| 0x1234_5678_9ABC_DEF0 ^ ((i as u64) << 31);
    all.into_iter().enumerate().map(|(i, sampling)| sampling.seed(seed(i))).collect()
}

/// The same logits for all samplings, in one pass.
fn compare_samplings(bench: &mut Bench, logits: &[f32], all: &[Sampling], repeat: u32) {
    let asks: Vec<Ask> = (0..).zip(all).map(|(i, s)| Ask::new(logits, s, i)).collect();
    for asks in asks.chunks(WANTS) {
        bench.compare(asks, repeat);
    }
}

/// Wants of a pass in tests that draw with all [`samplings`].
const WANTS: usize = 21;

#[test]
fn same_draws_as_the_cpu() {
    for (vocab, repeat) in [(65, 16), (1000, 16), (4099, 8), (150_003, 1)] {
        let Some(mut bench) = Bench::new(vocab, vocab, WANTS) else { return };
        let narrow = normals(vocab as u64, vocab);
        let wide: Vec<f32> = narrow.iter().map(|v| 5.0 * v).collect();
        let all = samplings(vocab);
        compare_samplings(&mut bench, &narrow, &all, repeat);
        compare_samplings(&mut bench, &wide, &all, repeat);
    }
}

/// An ask with everything that a draw can have, each with a probability of its own.
fn random_ask(random: &mut Random, vocab: usize, tokens: usize, with_mask: bool) -> Ask {
    let all = samplings(vocab);
    let sampling = all[random.below(all.len())].clone();
    let spread = [0.5, 3.0, 20.0][random.below(3)];
    let mut logits = random.normals(vocab, 0.0, spread);
    for _ in 0..vocab / 20 {
        logits[random.below(vocab)] = [f32::NAN, f32::NEG_INFINITY, 0.0, 1e-40][random.below(4)];
    }
    let mut ask = Ask::new(&logits, &sampling.seed(random.bits()), random.bits());
    if random.below(2) == 0 {
        let window = [1, 5, 64, 200, 4096][random.below(5)];
        ask.sampling = ask
            .sampling
            .repetition_penalty([1.0, 1.3, 0.7][random.below(3)])
            .presence_penalty([0.0, 0.4, -2.0][random.below(3)])
            .frequency_penalty([0.0, 0.3, -0.7][random.below(3)])
            .penalty_window(window);
        // likely tokens, so that the penalties matter
        let likely = |random: &mut Random| random.below(tokens.min(50)) as u32;
        ask.recent = (0..random.below(window + 1)).map(|_| likely(random)).collect();
        ask.pending = random.below(RECENT.min(100)) as u32;
        ask.position = ask.pending + random.below(300) as u32;
    }
    if random.below(3) == 0 {
        let mut ids: Vec<u32> = (0..20).map(|_| random.below(vocab) as u32).collect();
        ids.sort_unstable();
        ids.dedup();
        let bias = |random: &mut Random| [f32::NEG_INFINITY, -3.5, 7.25, 100.0][random.below(4)];
        ask.bias = ids.into_iter().map(|id| (id, bias(random))).collect();
    }
    if with_mask && random.below(3) == 0 {
        let density = random.below(3);
        let words = vocab.div_ceil(32);
        let word = |random: &mut Random| match density {
            0 => random.bits() as u32,
            1 => u32::MAX,
            _ => 0,
        };
        let mut mask: Vec<u32> = (0..words).map(|_| word(random)).collect();
        // one allowed token, or one that is forbidden
        let id = random.below(tokens);
        mask[id / 32] ^= 1 << (id % 32);
        ask.mask = Some(mask);
    }
    if random.below(3) == 0 {
        ask.log_probs = Some([0, 1, 5, 20][random.below(4)]);
    }
    ask
}

/// Wants of all kinds in one pass, with penalties, biases, masks and log-probabilities.
#[test]
fn mixed_wants() {
    for (vocab, tokens) in [(33, 31), (1000, 998), (50_257, 50_200)] {
        for wants in [1, 3, 17] {
            let Some(mut bench) = Bench::new(vocab, tokens, wants) else { return };
            let mut random = Random::new((vocab * wants) as u64);
            for round in 0..if vocab > 10_000 { 3 } else { 12 } {
                let repeat = [1, 5][round % 2];
                let ask = |_| random_ask(&mut random, vocab, tokens, repeat == 1);
                let asks: Vec<Ask> = (0..wants).map(ask).collect();
                bench.compare(&asks, repeat);
            }
        }
    }
}

/// The draws of thousands of distributions.
#[test]
fn many_draws() {
    let vocab = 512;
    let Some(mut bench) = Bench::new(vocab, vocab, 20) else { return };
    let asks: Vec<Ask> = (0..80)
        .map(|seed| {
            let deviation = [0.5, 2.0, 6.0][seed as usize % 3];
            let logits = Random::new(seed).normals(vocab, 0.0, deviation);
            let top_k = [40, 0, 300][seed as usize / 3 % 3];
            Ask::new(&logits, &Sampling::default().top_k(top_k).seed(seed), 1000 * seed)
        })
        .collect();
    for asks in asks.chunks(20) {
        bench.compare(asks, 32);
    }
}

/// Equal logits: tokens of lower ids count as likelier, also where all are equal.
#[test]
fn ties() {
    let vocab = 3000;
    let Some(mut bench) = Bench::new(vocab, vocab, WANTS) else { return };
    let mut random = Random::new(5);
    for levels in [1, 2, 5] {
        let logits: Vec<f32> =
            (0..vocab).map(|_| random.below(levels) as f32 * 0.3 - 0.3).collect();
        let sign = |(i, &v): (usize, &f32)| if i % 3 == 0 { v * -0.0 } else { v };
        let signs: Vec<f32> = logits.iter().enumerate().map(sign).collect();
        for logits in [logits, signs] {
            compare_samplings(&mut bench, &logits, &samplings(vocab), 4);
        }
    }
}

#[test]
fn hostile_logits() {
    let vocab = 1030;
    let Some(mut bench) = Bench::new(vocab, vocab, WANTS) else { return };
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
        let samplings = samplings(vocab);
        compare_samplings(&mut bench, logits, &samplings, 2);
        let extreme: Vec<Sampling> = samplings
            .into_iter()
            .map(|s| {
                let temperature = [1e-30, 1e30][s.top_k % 2];
                s.temperature(temperature)
            })
            .collect();
        compare_samplings(&mut bench, logits, &extreme, 2);
        // biases, penalties and log-probabilities of what is not finite
        let asks: Vec<Ask> = (0..10)
            .map(|i| Ask {
                bias: (0..10)
                    .map(|id| (id, [infinity, -infinity, 1e-40, f32::MAX][(id + i) as usize % 4]))
                    .collect(),
                recent: (5..15).collect(),
                log_probs: Some(20),
                ..Ask::new(logits, &extreme[i as usize].clone().repetition_penalty(1.5), 0)
            })
            .collect();
        bench.compare(&asks, 1);
    }
}

/// The index of a token has 64 bits.
#[test]
fn the_index_is_carried() {
    let Some(mut bench) = Bench::new(80, 80, 1) else { return };
    let sampling = Sampling::default().seed(9).temperature(5.0);
    bench.compare(&[Ask::new(&normals(1, 80), &sampling, u64::from(u32::MAX) - 3)], 9);
}

/// All likely tokens in few chunks, so that a search gains nothing from the chunks.
#[test]
fn crowded_chunks() {
    let vocab = 20_000;
    let Some(mut bench) = Bench::new(vocab, vocab, WANTS) else { return };
    let mut logits = normals(2, vocab);
    for i in (0..vocab).filter(|i| i / 4 % CHUNK_THREADS < 9) {
        logits[i] = 9.0 + logits[i] * 0.01;
    }
    compare_samplings(&mut bench, &logits, &samplings(vocab), 3);
}

/// The sum of exponentials of a vocabulary whose greatest logits are those of padded ids.
#[test]
fn likely_padding() {
    let (vocab, tokens) = (5000, 3001);
    let Some(mut bench) = Bench::new(vocab, tokens, WANTS) else { return };
    let mut logits = normals(3, vocab);
    logits[tokens..].fill(30.0);
    let ask = |(i, s): (u64, &Sampling)| Ask { log_probs: Some(20), ..Ask::new(&logits, s, i) };
    let asks: Vec<Ask> = (0..).zip(&samplings(vocab)).map(ask).collect();
    bench.compare(&asks[..WANTS], 2);
}

/// Not a test: prints the time of a draw on one row. Run it alone, on the GPU that it is about.
#[test]
#[ignore = "a measurement"]
fn speed() {
    const MANY: usize = 32;
    let adapter = crate::adapters().into_iter().next().unwrap();
    for vocab in [32_000, 128_256, 151_936, 262_144] {
        let mut bench =
            Bench::on(Device::open(&adapter, Checks::default()).unwrap(), vocab, vocab, 16);
        let logits: Vec<f32> = normals(1, 16 * vocab).iter().map(|v| 3.0 * v).collect();
        bench.device.queue.write_buffer(&bench.logits, 0, bytemuck::cast_slice(&logits));
        let all = Sampling::default().top_k(0).seed(1);
        let greedy = Ask::new(&[], &Sampling::greedy().seed(1), 0);
        let default = Ask::new(&[], &Sampling::default().seed(1), 0);
        let penalized = Sampling::default().repetition_penalty(1.1).seed(1);
        for (name, ask) in [
            ("greedy", greedy.clone()),
            ("default", default.clone()),
            ("top-k 128", Ask::new(&[], &all.clone().top_k(FEW), 0)),
            ("min-p", Ask::new(&[], &all.clone().top_p(1.0), 0)),
            ("top-p", Ask::new(&[], &all.clone(), 0)),
            ("top-k 5000", Ask::new(&[], &all.top_k(5000), 0)),
            ("default, mask", Ask { mask: Some(vec![!1; vocab.div_ceil(32)]), ..default.clone() }),
            (
                "default, penalties",
                Ask { recent: (0..64).collect(), ..Ask::new(&[], &penalized, 0) },
            ),
            (
                "default, penalties of 4096",
                Ask {
                    recent: (0..4096).collect(),
                    ..Ask::new(&[], &penalized.clone().penalty_window(4096), 0)
                },
            ),
            ("greedy, 20 log-probs", Ask { log_probs: Some(20), ..greedy }),
        ] {
            for wants in [1, 16] {
                let rows = vec![Row { input: Input::Sampled, position: 9, slot: 0 }; wants];
                let wanted: Vec<Want<'_>> = (0..wants as u32)
                    .map(|row| {
                        let (draw, recent) = (ask.draw(), ask.recent.as_slice());
                        Want::Sample(SampleWant { row, draw, recent, pending: 0 })
                    })
                    .collect();
                let pass = Pass::new(Phase::Decode, &rows, &wanted);
                let mut time = |n: usize| {
                    let call = bench.sample.prepare(&bench.device, &pass);
                    let mut encoder =
                        bench.device.device.create_command_encoder(&Default::default());
                    let mut compute = encoder.begin_compute_pass(&Default::default());
                    (0..n).for_each(|_| bench.sample.record(&mut compute, &call));
                    drop(compute);
                    let commands = encoder.finish();
                    let begun = std::time::Instant::now();
                    bench.device.queue.submit([commands]);
                    bench.device.wait().unwrap();
                    begun.elapsed().as_secs_f64()
                };
                let mut least = |n| (0..9).map(|_| time(n)).fold(f64::INFINITY, f64::min);
                // the cost of a submission is in both
                let each = (least(MANY) - least(MANY / 4)) / (MANY * 3 / 4) as f64;
                println!("{vocab} {name}, {wants} wants: {:.1} µs", each * 1e6);
            }
        }
    }
}
