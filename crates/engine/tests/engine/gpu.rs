//! Models on the first GPU or software driver, compared with `transformers` and with the CPU.
//! Without either, each test says that it was skipped.

#![cfg(feature = "gpu")]
use std::sync::Arc;

use pelton::{
    Constraint, Engine, GenerateOptions, HostLayers, KvType, LoadOptions, Model, ModelSource,
    Sampling, Speculation, SpeechOptions,
    gpu::{Gpu, adapters},
    graph::Backend,
};
use pelton_cpu::Cpu;
use pelton_speech::{Append, Filters, Hypothesis, Ranked, Recognizer};
use pelton_testing::{Need, WhisperSpec, backend::relative_difference, skip};

use crate::cases::{cases, greatest_difference, run, top};
use crate::request::{Request, Run};

/// The first device, with kernels that test every index.
fn device() -> Option<Gpu> {
    let Some(adapter) = adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return None;
    };
    Some(Gpu::open_checked(&adapter).unwrap())
}

/// The likeliest tokens that a GPU finds are those of its logits, under masks that ban some or all.
#[test]
fn rankings_are_those_of_the_logits() {
    const SPLIT: u32 = 40;
    let Some(gpu) = device() else { return };
    let spec = WhisperSpec {
        positions: 150,
        context: 140,
        mels: 5,
        vocab: 50,
        encoder_layers: 1,
        ..WhisperSpec::default()
    };
    let options = SpeechOptions::default().windows(2).beams(3);
    let mut model =
        Engine::with_backend(gpu).load_speech_checkpoint(spec.checkpoint(), &options).unwrap();
    let frames = [1, 2].map(|seed| spec.features(seed));
    let windows = model.encode(&frames.each_ref().map(Vec::as_slice)).unwrap();
    let masks: Vec<u32> =
        [[u32::MAX, (1 << 18) - 1], [0xf0f0_1234, 0x2_4924], [u32::MAX, 0], [0, 0]].concat();
    let mut begin = |ranks: bool| {
        let hypotheses: Vec<Hypothesis> =
            (0..4).map(|i| model.begin(windows[i % 2]).unwrap()).collect();
        let appends = |tokens: &'static [u32], wants: &'static [usize]| -> Vec<Append<'_>> {
            let append = |&hypothesis| Append { hypothesis, tokens, wants };
            hypotheses.iter().map(append).collect()
        };
        model.append(&appends(&[3, 1, 2], &[2])).unwrap();
        let filters = Filters { masks: &masks, split: SPLIT, count: 3 };
        let found = match ranks {
            true => model.append_ranked(&appends(&[7], &[0]), &filters).unwrap(),
            false => {
                let logits = model.append(&appends(&[7], &[0])).unwrap();
                let rows = logits.chunks(spec.vocab).zip(masks.chunks(2)).map(|(row, mask)| {
                    let allowed = |id: usize| mask[id / 32] >> (id % 32) & 1 == 1;
                    let of = |id| if allowed(id) { row[id] } else { f32::NEG_INFINITY };
                    Ranked::of(&(0..spec.vocab).map(of).collect::<Vec<_>>(), SPLIT, 3)
                });
                rows.collect()
            }
        };
        hypotheses.into_iter().for_each(|hypothesis| model.free(hypothesis));
        found
    };
    let (expected, found) = (begin(false), begin(true));
    assert_eq!(expected.len(), found.len());
    for (expected, found) in expected.iter().zip(&found) {
        for (expected, found) in
            [(&expected.others, &found.others), (&expected.timestamps, &found.timestamps)]
        {
            assert_eq!(expected.likeliest, found.likeliest);
            assert_eq!(expected.greatest, found.greatest);
            assert!((expected.sum - found.sum).abs() < 1e-4, "{} {}", expected.sum, found.sum);
        }
    }
    assert!(model.ranks() > 0);
}

/// Prompts in one chunk and in several. Keys and values in f16 move these logits as far as on the
/// CPU; and kernels for one row and for many, which sum in other orders, can tip their rounding. In
/// f32 there is nothing to tip.
#[test]
fn logits_of_transformers() {
    let Some(gpu) = device() else { return };
    for case in cases() {
        for (kv, tolerance, between) in [(KvType::F32, 1e-3, 1e-4), (KvType::F16, 2e-2, 2e-2)] {
            let mut session = case.session(gpu.clone(), kv);
            case.check(&mut session, kv, tolerance);
            let ids = &case.ids[..64];
            let whole = run(&mut session, ids, &[64]);
            for chunks in [&[1, 63][..], &[17, 47], &[1; 64]] {
                let difference = greatest_difference(&run(&mut session, ids, chunks), &whole);
                assert!(difference < between, "{} {kv:?} in {chunks:?}: {difference}", case.name);
            }
        }
    }
}

const STORY: &str = "Once upon a time";
const CHAT: &str = "<|user|>What is 7 plus 5?<|end|><|assistant|>";

fn built_in(backend: impl Backend + 'static) -> Model {
    let options = LoadOptions::default().context(300).rows(64);
    Engine::with_backend(backend).load(ModelSource::BuiltIn, &options).unwrap()
}

fn text(model: &Model, prompt: &str, most: usize, sampling: Sampling) -> String {
    let request = Request::new(prompt).max_tokens(most).sampling(sampling);
    model.run(request.ignore_eos(true)).unwrap().text().unwrap()
}

fn seeded(seed: u64) -> Sampling {
    Sampling::default().seed(seed)
}

/// Weights in blocks: the GPU and the CPU round activations to 8 bits alike, so logits
/// agree to the sixth digit until one number tips. From there on they differ as they do from those
/// of the reference path, which does not round.
#[test]
fn logits_of_the_cpu() {
    let Some(gpu) = device().map(built_in) else { return };
    let story = STORY.to_owned() + &text(&gpu, STORY, 64, Sampling::greedy());
    let tokens = &gpu.tokenizer().unwrap().encode_prompt(&story).unwrap()[..64];
    let mut gpu = gpu.into_session().unwrap();
    for cpu in [Cpu::reference(), Cpu::new(2)] {
        let name = format!("{cpu:?}");
        let expected = run(&mut built_in(cpu).into_session().unwrap(), tokens, &[64]);
        for chunks in [&[64][..], &[8; 8], &[1; 64]] {
            let difference = relative_difference(&expected, &run(&mut gpu, tokens, chunks));
            assert!(difference < 2e-2, "{name} {chunks:?}: {difference}");
        }
    }
}

/// Along a greedy text of the CPU the GPU finds the same tokens likeliest, except where two are
/// nearly as likely: GPUs sum in other orders. Rounding to 8 bits moves logits by 0.45 between the
/// reference path and the fast one.
#[test]
fn greedy_texts_of_the_cpu() {
    let Some([gpu, cpu]) = device().map(|gpu| [built_in(gpu), built_in(Cpu::new(2))]) else {
        return;
    };
    let texts = [STORY, CHAT].map(|prompt| {
        let prompt = cpu.tokenizer().unwrap().encode_prompt(prompt).unwrap();
        let request = Request::from_tokens(prompt.clone()).max_tokens(200);
        let request = request.sampling(Sampling::greedy()).ignore_eos(true);
        let expected: Vec<u32> = cpu.run(request).unwrap().map(|token| token.unwrap().id).collect();
        assert_eq!(expected.len(), 200);
        (prompt, expected)
    });
    let mut sessions = [gpu, cpu].map(|model| model.into_session().unwrap());
    let vocab = sessions[0].plan().vocab;
    for (prompt, expected) in texts {
        let all = [&prompt[..], &expected[..199]].concat();
        let chunks = vec![1; all.len()];
        let [on_gpu, on_cpu] = sessions.each_mut().map(|session| run(session, &all, &chunks));
        let rows = |logits: &[f32]| -> Vec<Vec<f32>> {
            logits.chunks(vocab).skip(prompt.len() - 1).map(<[f32]>::to_vec).collect()
        };
        let mut different = 0;
        for ((gpu, cpu), &token) in rows(&on_gpu).iter().zip(rows(&on_cpu)).zip(&expected) {
            let found = (0..vocab).fold(0, |best, i| if gpu[i] > gpu[best] { i } else { best });
            if found != token as usize {
                let lead = cpu[token as usize] - cpu[found];
                assert!(lead < 0.45, "{found} instead of {token}, which leads by {lead}");
                different += 1;
            }
        }
        assert!(different <= 4, "{different} of 200 tokens differ");
    }
}

/// A lone constrained request runs ahead of its masks; where there is another request it does not.
#[test]
fn constrained_texts_alone_and_in_a_batch() {
    let Some(gpu) = device() else { return };
    let options = LoadOptions::default().context(300).rows(64).max_concurrent(2);
    let model = Engine::with_backend(gpu)
        .load(ModelSource::BuiltIn, &options.speculation(Speculation::Off))
        .unwrap();
    let schema = serde_json::json!({
        "type": "object",
        "properties": {"animal_name": {"type": "string"}, "river": {"type": "boolean"}},
        "required": ["animal_name", "river"],
        "additionalProperties": false
    });
    let hot = |seed| seeded(seed).temperature(1.3).top_k(0).top_p(1.0);
    let requests = [
        (Constraint::JsonSchema(schema), hot(1)),
        (Constraint::Regex("([a-z]{2,9} ){30}".into()), seeded(2).repetition_penalty(1.3)),
        (Constraint::Regex("(The|A) [a-z]{3,8} by the river( [a-z]{2,6}){9}".into()), hot(3)),
    ];
    for (constraint, sampling) in requests {
        let request = Request::new(STORY).constraint(constraint).sampling(sampling).max_tokens(32);
        // log-probabilities let nothing be forced
        let requests = [request.clone().logprobs(0), request];
        let alone = requests.clone().map(|request| model.run(request).unwrap().text().unwrap());
        let together = requests.map(|request| model.run(request).unwrap());
        let together = together.map(|mut stream| stream.text().unwrap());
        assert_eq!(alone, together);
        assert!(alone[0].len() > 8, "{alone:?}");
    }
}

#[test]
fn same_seed_same_text() {
    let Some(gpu) = device().map(built_in) else { return };
    let [first, again, other] = [1, 1, 2].map(|seed| text(&gpu, STORY, 60, seeded(seed)));
    assert_eq!(first, again);
    assert_ne!(first, other);
}

/// Weights in f32: the tokens that are drawn on the GPU are those that the CPU draws.
#[test]
fn draws_of_the_cpu() {
    let Some(gpu) = device() else { return };
    for case in cases() {
        let models = [case.load(gpu.clone(), KvType::F32), case.load(Cpu::new(2), KvType::F32)];
        let wide = seeded(2).temperature(1.5).top_k(0);
        for sampling in [Sampling::greedy(), seeded(1), wide] {
            let [got, expected] = models.each_ref().map(|model| {
                let request = Request::from_tokens(case.ids[..4].to_vec()).max_tokens(60);
                let stream = model.run(request.sampling(sampling.clone())).unwrap();
                stream.map(|token| token.unwrap().id).collect::<Vec<_>>()
            });
            assert_eq!(got, expected, "{} {sampling:?}", case.name);
        }
    }
}

/// Repeated passes in flight give, bit for bit, what single passes give one after the other. They
/// begin where attention has one KV split and go on to where it has several.
#[test]
fn repeated_passes_are_single_passes() {
    let Some(gpu) = device().map(built_in) else { return };
    let prompt = gpu.tokenizer().unwrap().encode_prompt(STORY).unwrap();
    let bits = |logits: &[f32]| logits.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let mut session = gpu.into_session().unwrap();
    let story = session.run(&prompt).map(|logits| top(logits) as u32).unwrap();
    let story = [vec![story], session.decode(story, 170).unwrap()].concat();
    let mut position = prompt.len() + 170;
    let mut token = story[170];
    for n in [1, 2, 12, 45] {
        let repeated = session.decode(token, n).unwrap();
        let after = bits(session.run(&repeated[n - 1..]).unwrap());
        session.truncate(position);
        let mut passes = Vec::new();
        let mut next = token;
        for _ in 0..n {
            next = top(session.run(&[next]).unwrap()) as u32;
            passes.push(next);
        }
        assert_eq!(repeated, passes);
        assert!(bits(session.run(&[next]).unwrap()) == after, "the logits after {n} passes");
        session.truncate(position + n);
        (position, token) = (position + n, next);
    }
}

/// Requests together and over cached prefixes have the texts that they have alone, with
/// feed-forwards in RAM whose weights are streamed for prompts or not.
#[test]
fn requests_with_feed_forwards_in_ram() {
    let Some(gpu) = device() else { return };
    let load = |slots: usize, layers: usize, stream_from: usize| {
        let options = LoadOptions::default().context(300).rows(64).max_concurrent(slots);
        let options = options.host_ffn(HostLayers::First(layers)).stream_from(stream_from);
        let devices: Vec<Arc<dyn Backend>> = vec![Arc::new(gpu.clone())];
        let engine = Engine::with_devices(devices, Cpu::new(2), false);
        engine.load(ModelSource::BuiltIn, &options).unwrap()
    };
    let start = |model: &Model, i: u32| {
        // the first page of all is the same
        let prompt: Vec<u32> =
            (0..100).map(|at| if at < 80 { 3 + at } else { 5 + at + i }).collect();
        let request = GenerateOptions::default().max_tokens(10 + 2 * i as usize).ignore_eos(true);
        model.generate(prompt, request.sampling(seeded(i.into()))).unwrap()
    };
    let ids = |stream: pelton::TokenStream| -> Vec<u32> {
        stream.map(|token| token.unwrap().id).collect()
    };
    for stream_from in [100, 101] {
        let alone: Vec<Vec<u32>> =
            (0..4).map(|i| ids(start(&load(1, 3, stream_from), i))).collect();
        let model = load(4, 3, stream_from);
        assert_eq!(model.placement().stream_from, Some(stream_from));
        for run in 0..2 {
            let streams: Vec<_> = (0..4).map(|i| start(&model, i)).collect();
            let together: Vec<Vec<u32>> = streams.into_iter().map(ids).collect();
            assert_eq!(together, alone, "run {run}, streamed from {stream_from}");
        }
    }
    // the CPU rounds as the GPU does, but its sums have another order
    assert_eq!(ids(start(&load(1, 0, 0), 0)).len(), 10);
}
