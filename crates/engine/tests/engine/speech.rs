//! Speech models through `Recognizer`, compared with openai-whisper and with themselves.

use pelton::{Device, Engine, Error, KvType, LoadOptions, SpeechModel, SpeechOptions};
use pelton_speech::{Append, Hypothesis, Recognizer, Window};
use pelton_testing::{
    WhisperSpec,
    speech::{numbers, oracle},
};

fn engine(threads: usize) -> Engine {
    Engine::builder().device(Device::Cpu).threads(threads).build().unwrap()
}

fn load(spec: &WhisperSpec, threads: usize, options: &SpeechOptions) -> SpeechModel {
    engine(threads).load_speech_checkpoint(spec.checkpoint(), options).unwrap()
}

/// A small model, in whose hypotheses a page ends.
fn small() -> WhisperSpec {
    WhisperSpec {
        positions: 150,
        context: 140,
        mels: 5,
        vocab: 50,
        encoder_layers: 1,
        ..WhisperSpec::default()
    }
}

fn best(logits: &[f32]) -> u32 {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap() as u32
}

#[test]
fn tokens_and_scores_are_those_of_openai_whisper() {
    let (spec, oracle) = oracle(80);
    let options = SpeechOptions::default().windows(2).beams(2).kv(KvType::F32);
    let mut model = load(&spec, 2, &options);
    let expected = oracle["windows"].as_array().unwrap();
    let frames: Vec<Vec<f32>> =
        expected.iter().map(|of| spec.features(of["features_seed"].as_u64().unwrap())).collect();
    let views: Vec<&[f32]> = frames.iter().map(Vec::as_slice).collect();
    let windows = model.encode(&views).unwrap();
    let greedy: Vec<Vec<u32>> = expected
        .iter()
        .map(|of| numbers(&of["greedy"]).into_iter().map(|id| id as u32).collect())
        .collect();
    // both windows in every pass
    let hypotheses: Vec<Hypothesis> =
        windows.iter().map(|&window| model.begin(window).unwrap()).collect();
    let mut tokens: Vec<Vec<u32>> = greedy.iter().map(|tokens| tokens[..3].to_vec()).collect();
    let mut first = 0;
    while tokens[0].len() < greedy[0].len() {
        let wants = [tokens[0].len() - first - 1];
        let appends: Vec<Append<'_>> = hypotheses
            .iter()
            .zip(&tokens)
            .map(|(&hypothesis, tokens)| Append {
                hypothesis,
                tokens: &tokens[first..],
                wants: &wants,
            })
            .collect();
        let next: Vec<u32> = model.append(&appends).unwrap().chunks(spec.vocab).map(best).collect();
        first = tokens[0].len();
        tokens.iter_mut().zip(next).for_each(|(tokens, next)| tokens.push(next));
    }
    assert_eq!(tokens, greedy);
    for (of, &window) in expected.iter().zip(&windows) {
        let prompt: Vec<u32> = numbers(&of["prompt"]).into_iter().map(|id| id as u32).collect();
        let found = model.align(window, &prompt).unwrap();
        assert_eq!((found.heads, found.tokens, found.positions), (2, prompt.len(), 1500));
        let (tokens, step) = (8, oracle["scores_step"].as_u64().unwrap() as usize);
        let picked = (0..2).flat_map(|head| (0..tokens).map(move |token| (head, token))).flat_map(
            |(head, token)| {
                let row = (head * prompt.len() + token) * 1500;
                found.scores[row..row + 1500].iter().step_by(step)
            },
        );
        for (got, expected) in picked.zip(numbers(&of["scores"])) {
            assert!((f64::from(*got) - expected).abs() < 1e-3, "{got}, expected {expected}");
        }
        let step = oracle["logits_step"].as_u64().unwrap() as usize;
        let rows = numbers(&of["logits_of"]);
        for (row, expected) in rows.iter().zip(of["logits"].as_array().unwrap()) {
            let row = &found.logits[*row as usize * spec.vocab..][..spec.vocab];
            for (got, expected) in row.iter().step_by(step).zip(numbers(expected)) {
                assert!((f64::from(*got) - expected).abs() < 1e-3, "{got}, expected {expected}");
            }
        }
    }
}

/// The logits after each token, bit by bit.
fn alone(model: &mut SpeechModel, window: Window, tokens: &[u32]) -> Vec<Vec<u32>> {
    let hypothesis = model.begin(window).unwrap();
    let bits = |logits: &[f32]| logits.iter().map(|x| x.to_bits()).collect();
    let mut all: Vec<Vec<u32>> = Vec::new();
    let prompt = Append { hypothesis, tokens: &tokens[..3], wants: &[2] };
    all.push(bits(model.append(&[prompt]).unwrap()));
    for token in tokens[3..].chunks(1) {
        all.push(bits(model.append(&[Append { hypothesis, tokens: token, wants: &[0] }]).unwrap()));
    }
    model.free(hypothesis);
    all
}

/// Forked hypotheses go on as if each had run alone, whichever is freed first. Pages come back: the
/// rounds together need many times those that there are.
#[test]
fn branches_have_the_bits_of_hypotheses_alone() {
    let spec = small();
    let frames = spec.features(1);
    let options = SpeechOptions::default().windows(1).beams(2);
    let mut model = load(&spec, 2, &options);
    for round in 0..6 {
        let window = model.encode(&[&frames]).unwrap()[0];
        // the fork is before, at and after the end of a page
        let shared = [40, 64, 70][round % 3];
        let branch = |end: u32| -> Vec<u32> {
            (0..shared as u32).chain(end..end + 66).map(|token| token % 50).collect()
        };
        let texts = [branch(7), branch(23)];
        let expected = texts.clone().map(|text| alone(&mut model, window, &text));
        let root = model.begin(window).unwrap();
        model.append(&[Append { hypothesis: root, tokens: &texts[0][..3], wants: &[] }]).unwrap();
        for token in texts[0][3..shared].chunks(1) {
            model.append(&[Append { hypothesis: root, tokens: token, wants: &[] }]).unwrap();
        }
        let branches = match round % 2 {
            0 => [root, model.fork(root).unwrap()],
            _ => {
                let both = [model.fork(root).unwrap(), model.fork(root).unwrap()];
                model.free(root);
                both
            }
        };
        for i in shared..texts[0].len() {
            let appends: Vec<Append<'_>> = branches
                .iter()
                .zip(&texts)
                .map(|(&hypothesis, text)| Append {
                    hypothesis,
                    tokens: &text[i..i + 1],
                    wants: &[0],
                })
                .collect();
            let logits = model.append(&appends).unwrap();
            for (logits, expected) in logits.chunks(spec.vocab).zip(&expected) {
                let bits: Vec<u32> = logits.iter().map(|x| x.to_bits()).collect();
                assert_eq!(bits, expected[i - 2], "round {round}, token {i}");
            }
        }
        branches.into_iter().for_each(|branch| model.free(branch));
        model.free_window(window);
    }
}

#[test]
fn limits_are_errors_and_leave_the_model_whole() {
    let spec = small();
    let frames = spec.features(1);
    let mut model = load(&spec, 1, &SpeechOptions::default().windows(1).beams(1));
    let window = model.encode(&[&frames]).unwrap()[0];
    assert!(matches!(model.encode(&[&frames]), Err(Error::CacheFull { .. })));
    assert!(matches!(model.encode(&[&frames[1..]]), Err(Error::RequestOption { .. })));
    let hypothesis = model.begin(window).unwrap();
    let tokens = vec![1; 141];
    let long = Append { hypothesis, tokens: &tokens, wants: &[] };
    assert!(matches!(model.append(&[long]), Err(Error::TextTooLong { .. })));
    let fits = Append { hypothesis, tokens: &tokens[..140], wants: &[0, 139] };
    assert_eq!(model.append(&[fits]).unwrap().len(), 2 * spec.vocab);
    let copy = model.fork(hypothesis).unwrap();
    assert!(model.begin(window).is_err());
    [hypothesis, copy].into_iter().for_each(|of| model.free(of));
    model.free_window(window);
    assert!(model.begin(window).is_err());
    assert!(model.encode(&[&frames]).is_ok());
}

#[test]
fn models_of_text_and_of_speech_are_not_mistaken() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("whisper.gguf");
    std::fs::write(&file, small().file()).unwrap();
    let error = engine(1).load(file, &LoadOptions::default()).err().unwrap();
    assert!(error.to_string().contains("computes the text of speech"), "{error}");
    let error = engine(1)
        .load_speech_checkpoint(pelton::built_in().unwrap(), &SpeechOptions::default())
        .err()
        .unwrap();
    assert!(error.to_string().contains("expected one that computes the text of speech"), "{error}");
}
