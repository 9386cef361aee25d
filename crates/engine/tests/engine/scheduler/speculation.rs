//! Drafted tokens: texts stay what they are, and passes get fewer.

use std::time::Duration;

use pelton::{
    Engine, Error, LoadOptions, Model, Sampling, Speculation, SpeculationStats, graph::Phase,
};
use pelton_testing::{
    ModelSpec,
    fake::{self, Failure, Fake, PassRecord},
};

use super::harness::{
    CONTEXT, VOCAB, alone, alone_on, assert_all_pages_back, assert_sound, greedy, load,
    load_recurrent, memory, model, prompt, submit,
};
use crate::request::Request;

fn always() -> LoadOptions {
    LoadOptions::default().context(2000).speculation(Speculation::Always)
}

fn expected(fake: &Fake, request: &Request) -> Vec<u32> {
    alone(fake, &[None], request).iter().map(|token| token.id).collect()
}

fn decodes(fake: &Fake) -> usize {
    fake.log().passes.iter().filter(|pass| pass.phase == Phase::Decode).count()
}

/// Each pass gives 16 tokens: as many passes as that needs.
#[test]
fn a_perfect_prediction() {
    for depth in [1, 3] {
        let fake = Fake::pipelined(depth, 4);
        let request = greedy(prompt(70, 1), 321);
        let text = expected(&fake, &request);
        let model = model(&fake, &always());
        let run = submit(&model, request.prediction(text.clone())).unwrap();
        let (tokens, stats) = run.finished();
        assert_eq!(tokens, text);
        assert_eq!(decodes(&fake), 320 / 16);
        let SpeculationStats { drafted, accepted, .. } = stats.speculation;
        assert_eq!((drafted, accepted), (300, 300));
        assert_all_pages_back(&model);
        assert_eq!(model.status().speculation.accepted, 300);
        assert_sound(&fake);
    }
}

/// Samples, penalties over drafted tokens, and log-probabilities of each token.
#[test]
fn every_kind_of_draw() {
    let sampled = Sampling::default().seed(3).temperature(1.5);
    let penalized = Sampling::greedy().frequency_penalty(1.0).repetition_penalty(1.3);
    for sampling in [sampled.clone(), penalized.penalty_window(20), sampled.presence_penalty(2.0)] {
        for (depth, phases) in [(1, false), (2, true)] {
            let fake = Fake::pipelined(depth, 8);
            let fake = if phases { fake.with_phases() } else { fake };
            let request = greedy(prompt(90, 2), 200).sampling(sampling.clone()).logprobs(2);
            let text = alone(&fake, &[None], &request);
            let mut prediction: Vec<u32> = text.iter().map(|token| token.id).collect();
            prediction.iter_mut().step_by(37).for_each(|token| *token = (*token + 1) % 50);
            let model = model(&fake, &always());
            let (tokens, _) = submit(&model, request.prediction(prediction)).unwrap().end();
            assert_eq!(tokens, text);
            assert_all_pages_back(&model);
            assert!(model.status().speculation.accepted > 100);
            assert_sound(&fake);
        }
    }
}

/// A pass on a GPU has the bits of its rows alone up to a number of rows.
#[test]
fn as_many_rows_as_are_exact() {
    let mut fake = Fake::pipelined(1, 1);
    fake.pipeline.exact_rows = 8;
    let model = model(&fake, &always().max_concurrent(3));
    let requests = [1, 2, 3].map(|seed| greedy(prompt(65, seed), 150));
    let texts = requests.each_ref().map(|request| expected(&fake, request));
    let runs: Vec<_> = requests
        .iter()
        .zip(&texts)
        .map(|(request, text)| submit(&model, request.clone().prediction(text.clone())).unwrap())
        .collect();
    for (run, text) in runs.iter().zip(&texts) {
        assert_eq!(&run.finished().0, text);
    }
    let log = fake.log();
    let decodes = log.passes.iter().filter(|pass| pass.phase == Phase::Decode);
    assert_eq!(decodes.map(|pass| pass.rows.len()).max(), Some(8));
}

/// Windows slide past positions whose tokens are accepted, no further.
#[test]
fn windowed_groups() {
    let windows = [None, Some(70)];
    let fake = Fake::pipelined(2, 4);
    let request = greedy(prompt(200, 1), 700);
    let text: Vec<u32> = alone(&fake, &windows, &request).iter().map(|token| token.id).collect();
    let mut wrong = text.clone();
    wrong.iter_mut().step_by(11).for_each(|token| *token = (*token + 1) % 50);
    let model = load(&fake, &always(), &windows);
    assert_eq!(submit(&model, request.prediction(wrong)).unwrap().finished().0, text);
    assert_all_pages_back(&model);
    assert_sound(&fake);
}

/// A recurrent state has no positions to return to: it is rolled back to a snapshot.
#[test]
fn recurrent_states_are_rolled_back() {
    for (depth, repeat) in [(1, 1), (2, 8)] {
        let fake = Fake::pipelined(depth, repeat);
        let (plan, checkpoint) = fake::recurrent_plan(VOCAB, CONTEXT, &[None]);
        let engine = Engine::with_backend(fake.clone());
        let draft = DraftFile::new(VOCAB);
        let options = always().max_concurrent(3);
        let drafted = options.clone().draft(&draft.0);
        for options in [options, drafted] {
            let model = engine.load_plan(plan.clone(), checkpoint.clone(), &options).unwrap();
            let requests = [greedy(prompt(20, 1), 300), greedy(prompt(130, 2), 200)];
            let requests = requests.map(|request| {
                let text: Vec<u32> = alone_on(load_recurrent, &fake, &[None], &request)
                    .1
                    .iter()
                    .map(|token| token.id)
                    .collect();
                let mut wrong = text.clone();
                wrong.iter_mut().step_by(23).for_each(|token| *token = (*token + 1) % 50);
                (request.prediction(wrong), text)
            });
            let runs =
                requests.each_ref().map(|(request, _)| submit(&model, request.clone()).unwrap());
            for (run, (_, text)) in runs.iter().zip(&requests) {
                assert_eq!(&run.finished().0, text);
            }
            assert_all_pages_back(&model);
            let stats = model.status().speculation;
            assert!(stats.accepted > 300 && stats.drafted > stats.accepted + 20, "{stats:?}");
        }
        assert_sound(&fake);
    }
}

/// Without memory for snapshots nothing is drafted.
#[test]
fn recurrent_states_without_snapshots() {
    let fake = Fake::default();
    let (plan, checkpoint) = fake::recurrent_plan(VOCAB, CONTEXT, &[None]);
    let engine = Engine::with_backend(fake.clone());
    let options = always().context(640).kv_memory(memory(640));
    let model = engine.load_plan(plan.clone(), checkpoint.clone(), &options).unwrap();
    let request = greedy(prompt(20, 1), 50);
    let (text, _) = submit(&model, request.clone()).unwrap().finished();
    let predicted = request.prediction(text.clone()).speculation(Speculation::Always);
    let (tokens, stats) = submit(&model, predicted).unwrap().finished();
    assert_eq!((tokens, stats.speculation.drafted), (text, 0));
    assert_sound(&fake);
    let draft = DraftFile::new(VOCAB);
    let error = engine.load_plan(plan, checkpoint, &options.draft(&draft.0)).err().unwrap();
    assert!(error.to_string().contains("recurrent states"), "{error}");
}

#[test]
fn a_prediction_of_unknown_tokens_is_refused() {
    let model = model(&Fake::default(), &always());
    let error = submit(&model, greedy(prompt(5, 1), 5).prediction(vec![1, 50])).err().unwrap();
    assert!(matches!(error, Error::UnknownToken { token: 50, vocab: 50 }), "{error}");
}

/// Drafted tokens that cost nothing, and drafted tokens that cost as much as a pass each.
#[test]
fn drafts_where_they_pay() {
    let time = Duration::from_millis(1);
    for (fake, pays) in
        [(Fake::pipelined(1, 1).slow_passes(time), true), (Fake::pipelined(1, 1).slow(time), false)]
    {
        let model = model(&fake, &LoadOptions::default().context(2000));
        let request = greedy(prompt(70, 1), 400);
        let text = expected(&fake, &request);
        let mut prediction = text.clone();
        if !pays {
            // two of three drafts are right, and the third costs as much as they save
            prediction.iter_mut().step_by(3).for_each(|token| *token = (*token + 1) % 50);
        }
        let (tokens, stats) = submit(&model, request.prediction(prediction)).unwrap().finished();
        assert_eq!(tokens, text);
        let stats = stats.speculation;
        match pays {
            // 15 of 16 at best
            true => assert!(stats.accepted > 300 && stats.gain().unwrap() > 4.0, "{stats:?}"),
            false => assert!(stats.drafted < 40, "{stats:?}"),
        }
        assert_sound(&fake);
    }
}

/// A GPU runs ahead of the host where nothing is drafted, and waits where drafts pay.
#[test]
fn passes_run_ahead_unless_drafts_pay() {
    let fake = Fake::pipelined(2, 8).slow_passes(Duration::from_millis(1));
    let model = model(&fake, &LoadOptions::default().context(2000));
    let copied = greedy(prompt(70, 1), 200);
    let text = expected(&fake, &copied);
    submit(&model, copied.prediction(text)).unwrap().finished();
    let with_drafts = |pass: &&PassRecord| pass.phase == Phase::Decode && pass.rows.len() > 1;
    assert!(fake.log().passes.iter().filter(with_drafts).count() > 5);
    let before = fake.log().passes.len();
    submit(&model, greedy(prompt(70, 2), 200)).unwrap().finished();
    let log = fake.log();
    let ahead = log.passes[before..].iter().filter(|pass| pass.repeat > 1).count();
    assert!(ahead > 10, "{ahead}");
}

/// The file of a model on the fake, whose logits are those of all models there.
struct DraftFile(std::path::PathBuf);

impl DraftFile {
    fn new(vocab: usize) -> Self {
        let file = ModelSpec { vocab, context: CONTEXT, ..ModelSpec::default() }.file(&[]);
        let name = format!(
            "pelton-draft-{}-{vocab}-{:?}.gguf",
            std::process::id(),
            std::thread::current().id()
        );
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, file).unwrap();
        Self(path)
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn with_draft(fake: &Fake, options: LoadOptions) -> Model {
    let draft = DraftFile::new(VOCAB);
    model(fake, &options.draft(&draft.0))
}

/// The same logits and the same noise: every token is accepted, in a batch too.
#[test]
fn a_draft_model_that_is_the_model() {
    for (depth, repeat) in [(1, 1), (2, 8)] {
        let fake = Fake::pipelined(depth, repeat);
        let model = with_draft(&fake, always().max_concurrent(3));
        let requests = [
            greedy(prompt(10, 1), 100),
            greedy(prompt(700, 2), 150).sampling(Sampling::default().seed(5).temperature(1.5)),
            greedy(prompt(300, 3), 120).sampling(Sampling::greedy().frequency_penalty(1.0)),
            greedy(prompt(40, 4), 90).sampling(Sampling::default().seed(9).presence_penalty(1.0)),
        ];
        let runs = requests.each_ref().map(|request| submit(&model, request.clone()).unwrap());
        for (run, request) in runs.iter().zip(&requests) {
            assert_eq!(run.finished().0, expected(&fake, request));
        }
        assert_all_pages_back(&model);
        let stats = model.status().speculation;
        assert!(stats.accepted > 200, "{stats:?}");
        // lookup is tried as well
        assert!(stats.acceptance().unwrap() > 0.9, "{stats:?}");
        assert_sound(&fake);
    }
}

#[test]
fn a_draft_model_that_fails_is_dropped() {
    for failure in [Failure::Submit, Failure::TakePanic] {
        let fake = Fake::default();
        let model = with_draft(&fake, always());
        // the first pass is the prompt's
        fake.fail_after(1, failure);
        let request = greedy(prompt(10, 1), 100);
        let (tokens, stats) = submit(&model, request.clone()).unwrap().finished();
        assert_eq!(tokens, expected(&fake, &request));
        assert_eq!((stats.speculation.drafted > 50, model.status().failed_passes), (false, 0));
    }
}

#[test]
fn a_draft_model_of_another_vocabulary_is_refused() {
    let draft = DraftFile::new(VOCAB + 1);
    let (plan, checkpoint) = fake::plan(VOCAB, CONTEXT, &[None]);
    let engine = Engine::with_backend(Fake::default());
    let error = engine.load_plan(plan, checkpoint, &always().draft(&draft.0)).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("has 51 tokens, expected the 50 of"), "{text}");
}
