//! The speed of a speech model on a GPU: windows of features, whole audio files, and the time
//! of each kind of step.
//!
//! `cargo bench -p pelton --features unstable --bench speech -- windows MODEL WINDOWS BEAMS TOKENS`
//! encodes as many windows at a time, and decodes a forced number of tokens for each.
//! `file MODEL WINDOWS BEAMS TOKENS SECONDS AUDIO` transcribes an audio file, repeated for as many
//! seconds, in batches of windows. `steps MODEL WINDOWS BEAMS` prints the GPU's time by kind of
//! step. All write lines of JSON. `compare MODEL` prints how far the logits of the GPU are from
//! those of the CPU, and whether texts are equal.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark fails by panic")]

use std::collections::BTreeMap;
use std::time::Instant;

use pelton::graph::{
    Backend, BuildOptions, Executable, Hidden, Input, KvType, Limits, Op, PAGE, Pass, Phase, Plan,
    Row, TableEdit, Want, build_with, pages_for,
};
use pelton::speech::{AudioFile, Language, Memory, Transcription};
use pelton::{Checkpoint, Device, Engine, SpeechModel, SpeechOptions};
use pelton_speech::decode::{Job, decode};
use pelton_speech::transcribe::TranscribeOptions;
use pelton_speech::{Append, Recognizer};

/// Tokens before a timed decoding step.
const DEPTH: usize = 64;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let count = |word: &str| word.parse::<usize>().unwrap();
    match *words {
        ["windows", model, windows, beams, tokens] => {
            time_windows(model, [windows, beams, tokens].map(count));
        }
        ["file", model, windows, beams, tokens, seconds, audio] => {
            time_file(model, [windows, beams, tokens, seconds].map(count), audio);
        }
        ["steps", model, windows, beams] => time_steps(model, [windows, beams].map(count)),
        ["compare", model] => compare(model),
        // as a test run calls it
        _ => println!("usage: windows|file|steps|compare MODEL …: see the source"),
    }
}

fn load(model: &str, device: Device, [windows, beams]: [usize; 2]) -> SpeechModel {
    let engine = Engine::builder().device(device).build().unwrap();
    let options = SpeechOptions::default().windows(windows).beams(beams);
    engine.load_speech(model, &options).unwrap()
}

/// Options that sample as many tokens in each window, without a second temperature.
fn forced(model: &SpeechModel, beams: usize, tokens: usize) -> TranscribeOptions {
    let mut rules = TranscribeOptions { temperatures: vec![0.0], ..TranscribeOptions::default() };
    rules.no_speech_threshold = None;
    rules.decode.language = Some(Language::ENGLISH);
    rules.decode.sample_len = Some(tokens);
    rules.decode.beam_size = (beams > 1).then_some(beams);
    // the end of the text is the token before the start of a transcript
    let vocabulary = model.vocabulary().unwrap();
    rules.decode.suppress.tokens = vec![vocabulary.eot];
    rules
}

/// Features of a window, different in each.
fn features(model: &SpeechModel, window: usize) -> Vec<f32> {
    let sizes = model.sizes();
    let mut state = window as u64 + 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..2 * sizes.positions * sizes.mels).map(|_| next()).collect()
}

fn time_windows(file: &str, [windows, beams, tokens]: [usize; 3]) {
    let mut model = load(file, Device::Auto, [windows, beams]);
    let vocabulary = model.vocabulary().unwrap();
    let all: Vec<Vec<f32>> = (0..windows).map(|window| features(&model, window)).collect();
    let all: Vec<&[f32]> = all.iter().map(Vec::as_slice).collect();
    let options = forced(&model, beams, tokens).decode;
    for run in 0..4 {
        let begun = Instant::now();
        let encoded = model.encode(&all).unwrap();
        let encoder = begun.elapsed().as_secs_f64();
        let job = |(id, &window)| Job { window, id, options: options.clone(), prompt: Vec::new() };
        let jobs: Vec<Job> = (0..).zip(&encoded).map(job).collect();
        let begun = Instant::now();
        let texts = decode(&mut model, &vocabulary, &jobs, &mut ()).unwrap();
        let decoder = begun.elapsed().as_secs_f64();
        encoded.into_iter().for_each(|window| model.free_window(window));
        let sampled: usize = texts.iter().map(|text| text.tokens.len()).sum();
        let times = (30 * windows) as f64 / (encoder + decoder);
        println!(
            "{{\"kind\":\"windows\",\"model\":\"{file}\",\"windows\":{windows},\"beams\":{beams},\"run\":{run},\"tokens\":{sampled},\"encoder_s\":{encoder:.5},\"decoder_s\":{decoder:.5},\"times_real_time\":{times:.1}}}"
        );
    }
}

fn time_file(file: &str, [windows, beams, tokens, seconds]: [usize; 4], audio: &str) {
    let mut model = load(file, Device::Auto, [windows, beams]);
    let once = AudioFile::open(audio).unwrap().read_all().unwrap();
    let samples: Vec<f32> = once.iter().copied().cycle().take(16_000 * seconds).collect();
    let mut options = Transcription::default();
    (options.rules, options.batched) = (forced(&model, beams, tokens), true);
    for run in 0..3 {
        let begun = Instant::now();
        let found = model.transcribe(Memory::new(&*samples), &options, &mut ()).unwrap();
        let time = begun.elapsed().as_secs_f64();
        println!(
            "{{\"kind\":\"file\",\"model\":\"{file}\",\"windows\":{windows},\"beams\":{beams},\"run\":{run},\"audio_s\":{seconds},\"segments\":{},\"seconds\":{time:.4},\"times_real_time\":{:.1}}}",
            found.segments.len(),
            seconds as f64 / time
        );
    }
}

/// A plan that runs by hand, with the pages of its windows and hypotheses.
struct ByHand {
    plan: Plan,
    executable: Box<dyn Executable>,
    pages: Vec<[Vec<u32>; 3]>,
    slots: usize,
}

impl ByHand {
    /// `windows` windows of a pass of the encoder, and as many hypotheses of each.
    fn load(file: &str, [windows, beams]: [usize; 2]) -> Self {
        let gpu = pelton::gpu::Gpu::open(&pelton::gpu::choose(None).unwrap()).unwrap();
        let checkpoint = std::sync::Arc::new(Checkpoint::open(file).unwrap());
        let plan = build_with(&checkpoint, &BuildOptions::default()).unwrap();
        let plan = plan.fuse(&|op: &Op, plan: &Plan| gpu.accepts(op, plan));
        let slots = windows * beams;
        let (own, window) = (pages_for(plan.context), pages_for(plan.encoded_positions()));
        let limits = Limits {
            rows: (windows * plan.encoded_positions()).max(plan.context),
            wants: slots.max(16),
            sequences: slots,
            context: plan.context,
            pages: vec![slots * own, windows * window, windows * window],
            snapshots: 0,
            kv: KvType::F16,
            tokens: plan.vocab,
            bias: 0,
        };
        let executable = gpu.load(plan.clone(), checkpoint, limits, &mut |_, _| {}).unwrap();
        let range = |slot: usize, count: usize| {
            (slot * count..(slot + 1) * count).map(|page| page as u32).collect::<Vec<u32>>()
        };
        let pages = (0..slots)
            .map(|slot| {
                [range(slot, own), range(slot / beams, window), range(slot / beams, window)]
            })
            .collect();
        Self { plan, executable, pages, slots }
    }
}

fn time_steps(file: &str, [windows, beams]: [usize; 2]) {
    let mut hand = ByHand::load(file, [windows, beams]);
    let plan = hand.plan.clone();
    let positions = plan.encoded_positions();
    let encoded: Vec<Row> = (0..windows)
        .flat_map(|window| {
            (0..positions as u32).map(move |position| Row {
                input: Input::Features,
                position,
                slot: (window * beams) as u32,
            })
        })
        .collect();
    let width = plan.buffer(plan.encoder.unwrap().features).width;
    let hidden = vec![0.1; encoded.len() * width];
    let decoded: Vec<Row> = (0..hand.slots as u32)
        .map(|slot| Row { input: Input::Token(slot), position: DEPTH as u32, slot })
        .collect();
    let wants: Vec<Want<'_>> = (0..hand.slots as u32).map(|row| Want::Logits { row }).collect();
    let pages = hand.pages.clone();
    let edits: Vec<TableEdit<'_>> = (0u32..)
        .zip(&pages)
        .flat_map(|(slot, pages)| {
            (0u32..).zip(pages).map(move |(group, pages)| TableEdit {
                group,
                slot,
                first: 0,
                pages,
            })
        })
        .collect();
    let encode = Pass {
        tables: &edits,
        hidden: Hidden::Given(&hidden),
        ..Pass::new(Phase::Encode, &encoded, &[])
    };
    let step = Pass { tables: &edits, ..Pass::new(Phase::Decode, &decoded, &wants) };
    for (name, pass, passes) in [("encode", encode, 2), ("decode", step, 16)] {
        let profile = hand.executable.profile(&pass, passes).unwrap();
        let rows = pass.rows.len();
        let (bytes, operations) = plan.steps[plan.steps_of(pass.phase)]
            .iter()
            .map(|step| cost(&plan, step, rows, windows, pass.phase))
            .fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
        let part = &profile.parts[0];
        let dispatches: usize = part.steps.iter().map(|step| step.dispatches).sum();
        let ms = 1e3 * profile.pass.as_secs_f64();
        println!(
            "{{\"kind\":\"{name}\",\"model\":\"{file}\",\"windows\":{windows},\"beams\":{beams},\"ms\":{ms:.4},\"dispatches\":{dispatches},\"gflop\":{:.1},\"mb\":{:.1},\"tflops\":{:.1},\"tb_s\":{:.3},\"read_tb_s\":{:.3}}}",
            operations / 1e9,
            bytes / 1e6,
            operations / 1e9 / ms,
            bytes / 1e9 / ms,
            part.read_bandwidth.unwrap_or(0.0) / 1e12,
        );
        let mut kinds: BTreeMap<String, (usize, usize, f64, f64, f64)> = BTreeMap::new();
        let running = plan.steps_of(pass.phase);
        for (i, (step, measured)) in plan.steps.iter().zip(&part.steps).enumerate() {
            if !running.contains(&i) {
                continue;
            }
            let widths = |ids: &[pelton::graph::BufferId]| {
                ids.iter()
                    .map(|&id| plan.buffer(id).width.to_string())
                    .collect::<Vec<_>>()
                    .join("+")
            };
            let mask = match &step.op {
                Op::Attend(of) => format!(" {:?}", of.mask),
                _ => String::new(),
            };
            let key = format!(
                "{}{mask} {} to {}",
                step.op.name(),
                widths(&step.inputs),
                widths(&step.outputs)
            );
            let all = kinds.entry(key).or_default();
            let (bytes, operations) = cost(&plan, step, rows, windows, pass.phase);
            all.0 += 1;
            all.1 += measured.dispatches;
            all.2 += 1e6 * measured.time.as_secs_f64();
            all.3 += operations / 1e9;
            all.4 += bytes / 1e6;
        }
        for (kind, (steps, dispatches, us, gflop, mb)) in kinds {
            println!(
                "{{\"kind\":\"{name} step\",\"step\":\"{kind}\",\"steps\":{steps},\"dispatches\":{dispatches},\"us\":{us:.1},\"gflop\":{gflop:.2},\"mb\":{mb:.2}}}"
            );
        }
    }
}

/// Bytes that a step must read of weights and caches, and its operations in products.
fn cost(
    plan: &Plan,
    step: &pelton::graph::Step,
    rows: usize,
    windows: usize,
    phase: Phase,
) -> (f64, f64) {
    let weights = step.op.weights();
    let matrices = weights.iter().map(|&id| plan.weight(id)).filter(|weight| weight.is_matrix());
    let (mut bytes, mut operations) = (0.0, 0.0);
    for weight in matrices {
        if matches!(step.op, Op::Embed { .. } | Op::AddTable { .. }) {
            continue;
        }
        bytes += weight.dtype.bytes_of(weight.len()).unwrap() as f64;
        operations += 2.0 * (weight.len() * rows) as f64;
    }
    let attention = match &step.op {
        Op::Attend(of) | Op::RopeAttend(_, of) => Some(of),
        _ => None,
    };
    if let Some(of) = attention {
        let width = plan.buffer(step.outputs[0]).width;
        let (sequences, seen) = match (phase, of.mask) {
            (Phase::Encode, _) => (windows, plan.encoded_positions()),
            (_, pelton::graph::Mask::Window { positions }) => (windows, positions),
            _ => (rows, DEPTH),
        };
        bytes += (sequences * seen * width * 4) as f64;
        operations += 4.0 * (rows * seen * width) as f64;
    }
    (bytes, operations)
}

/// Logits and texts of the GPU next to those of the CPU.
fn compare(file: &str) {
    compare_logits(file, [5, 1, PAGE + 6]);
    // rows for which products run on matrix cores
    compare_logits(file, [12, 2, 8]);
    for beams in [1, 5] {
        let [cpu, gpu] = [Device::Cpu, Device::Auto].map(|device| texts(file, device, beams));
        let pairs = || cpu.iter().flatten().zip(gpu.iter().flatten());
        let (equal, tokens) = (pairs().filter(|(a, b)| a == b).count(), pairs().count());
        let same = cpu.iter().zip(&gpu).filter(|(a, b)| a == b).count();
        println!(
            "{{\"kind\":\"texts\",\"model\":\"{file}\",\"beams\":{beams},\"equal_texts\":{same},\"texts\":{},\"equal_tokens\":{equal},\"tokens\":{tokens}}}",
            cpu.len()
        );
    }
}

/// The texts of windows by the rules of decoding.
fn texts(file: &str, device: Device, beams: usize) -> Vec<Vec<u32>> {
    const WINDOWS: usize = 12;
    let mut model = load(file, device, [WINDOWS, beams]);
    let vocabulary = model.vocabulary().unwrap();
    let all: Vec<Vec<f32>> = (0..WINDOWS).map(|window| features(&model, window)).collect();
    let windows = model.encode(&all.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    let options = forced(&model, beams, 40).decode;
    let job = |(id, &window)| Job { window, id, options: options.clone(), prompt: Vec::new() };
    let jobs: Vec<Job> = (0..).zip(&windows).map(job).collect();
    let texts = decode(&mut model, &vocabulary, &jobs, &mut ()).unwrap();
    texts.into_iter().map(|text| text.tokens).collect()
}

/// Logits of some hypotheses of each window, alone and in a batch of windows.
fn compare_logits(file: &str, [windows, each, steps]: [usize; 3]) {
    let mut logits: Vec<Vec<f32>> = Vec::new();
    let mut vocab = 1;
    for (device, together) in [(Device::Cpu, true), (Device::Auto, true), (Device::Auto, false)] {
        let mut model = load(file, device, [windows, each]);
        vocab = model.sizes().vocab;
        let all: Vec<Vec<f32>> = (0..windows).map(|window| features(&model, window)).collect();
        let mut own = vec![Vec::new(); windows * each];
        let batches: Vec<Vec<usize>> = match together {
            true => vec![(0..windows).collect()],
            false => (0..windows).map(|window| vec![window]).collect(),
        };
        for batch in batches {
            let views: Vec<&[f32]> = batch.iter().map(|&window| &*all[window]).collect();
            let encoded = model.encode(&views).unwrap();
            let of: Vec<usize> =
                batch.iter().flat_map(|window| window * each..(window + 1) * each).collect();
            let hypotheses: Vec<_> = encoded
                .iter()
                .flat_map(|&window| [window].repeat(each))
                .map(|window| model.begin(window).unwrap())
                .collect();
            for step in 0..steps as u32 {
                let tokens = |index: usize| match step {
                    0 => vec![50258, 50259, 50359],
                    _ => vec![(step * 389 + 7 * (index % each) as u32) % 50_000],
                };
                let tokens: Vec<Vec<u32>> = of.iter().map(|&index| tokens(index)).collect();
                let wants = [tokens[0].len() - 1];
                let appends: Vec<Append<'_>> = hypotheses
                    .iter()
                    .zip(&tokens)
                    .map(|(&hypothesis, tokens)| Append { hypothesis, tokens, wants: &wants })
                    .collect();
                let found = model.append(&appends).unwrap();
                for (&index, row) in of.iter().zip(found.chunks(vocab)) {
                    own[index].extend_from_slice(row);
                }
            }
            hypotheses.into_iter().for_each(|hypothesis| model.free(hypothesis));
            encoded.into_iter().for_each(|window| model.free_window(window));
        }
        logits.push(own.concat());
    }
    for (what, a, b) in [
        ("GPU, a batch of windows", 0, 1),
        ("GPU, single windows", 0, 2),
        ("single windows and batches", 1, 2),
    ] {
        let (a, b) = (&logits[a], &logits[b]);
        let square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
        let error = square(&mut a.iter().zip(b).map(|(a, b)| f64::from(a - b)));
        let size = square(&mut a.iter().map(|&a| f64::from(a)));
        let best = |row: &[f32]| (0..row.len()).max_by(|&i, &j| row[i].total_cmp(&row[j]));
        let pairs = || a.chunks(vocab).zip(b.chunks(vocab));
        let equal = pairs().filter(|(a, b)| best(a) == best(b)).count();
        println!(
            "{{\"kind\":\"compare\",\"model\":\"{file}\",\"windows\":{windows},\"hypotheses\":{each},\"what\":\"{what}\",\"relative_rms\":{:.2e},\"equal_tokens\":{equal},\"tokens\":{}}}",
            (error / size).sqrt(),
            pairs().count()
        );
    }
}
