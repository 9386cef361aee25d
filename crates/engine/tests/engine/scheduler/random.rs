//! Random schedules: each text is that of the request alone, and all pages come back.

use std::{env, sync::Arc, thread, time::Duration};

use pelton::{
    Engine, Error, FinishReason, LoadOptions, Model, Prompt, PromptToken, Sampling, Speculation,
    Status, Token, graph::Backend,
};
use pelton_place::Split;
use pelton_testing::{
    Random,
    fake::{self, Failure, Fake},
};

use super::harness::{
    CONTEXT, End, Load, VOCAB, alone_on, assert_all_pages_back, assert_sound, load, load_recurrent,
    memory, prompt, submit,
};
use crate::request::Request;

/// Requests that a family of schedules is made of, with what each gives alone.
struct Family {
    fake: Fake,
    windows: &'static [Option<usize>],
    load: Load,
    is_recurrent: bool,
    requests: Vec<(Request, Given)>,
}

/// The scored tokens of a prompt, and the tokens after it.
type Given = (Vec<PromptToken>, Vec<Token>);

fn families() -> Vec<Family> {
    let kinds: [(&[Option<usize>], Load, bool); 4] = [
        (&[None], load, false),
        (&[None, Some(70)], load, false),
        (&[Some(100)], load, false),
        (&[None, Some(70)], load_recurrent, true),
    ];
    let mut families = Vec::new();
    for (windows, load, is_recurrent) in kinds {
        let fake = Fake::default;
        for fake in [fake(), fake().with_phases(), fake().streaming_from(100)] {
            let mut random = Random::new(3);
            let requests = (0..30)
                .map(|_| request(&mut random))
                .map(|request| {
                    let alone = alone_on(load, &fake, windows, &request);
                    (request, alone)
                })
                .collect();
            families.push(Family { fake, windows, load, is_recurrent, requests });
        }
    }
    families
}

fn request(random: &mut Random) -> Request {
    // a few prefixes, with ends of their own; some outgrow the pages that they were admitted with
    let (longest, most) = [(300, 60), (70, 800)][random.below(2)];
    let mut tokens = prompt(longest, random.below(3));
    tokens.truncate(1 + random.below(longest));
    tokens.extend(prompt(random.below(40), 10 + random.below(50)));
    let sampling = match random.below(4) {
        0 => Sampling::greedy(),
        1 => Sampling::default().seed(random.bits()).temperature(2.0).top_k(0),
        2 => Sampling::default().seed(random.bits()).frequency_penalty(2.0).repetition_penalty(1.5),
        _ => Sampling::greedy().presence_penalty(3.0).penalty_window(1 + random.below(300)),
    };
    let mut request =
        Request::from_tokens(tokens).max_tokens(1 + random.below(most)).sampling(sampling);
    if random.below(4) == 0 {
        request = request.logprobs(random.below(4));
    }
    if random.below(4) == 0 {
        request = request.prompt_logprobs(random.below(4));
        if random.below(5) == 0 {
            request = request.max_tokens(0);
        }
    }
    if random.below(4) == 0 {
        let effort = [0.25, 0.5, 1.0][random.below(3)];
        request = request.effort(effort).effort_in_prompt(random.below(3) == 0);
    }
    if random.below(4) == 0 {
        request = request.logit_bias(random.below(50) as u32, 3.0);
    }
    request
}

/// The text that is expected with a few other tokens, or none.
fn prediction(random: &mut Random, expected: &[Token]) -> Option<Prompt> {
    if random.below(2) == 0 {
        return None;
    }
    let wrong = [2, 10, 1000][random.below(3)];
    let tokens = expected.iter().flat_map(|token| match random.below(wrong) {
        0 => vec![],
        1 => vec![random.below(VOCAB) as u32, token.id],
        _ => vec![token.id],
    });
    Some(tokens.collect::<Vec<u32>>().into())
}

/// A model over `stages` devices: fakes that take some time, and at the end `last`.
/// Returns the others too.
fn load_split(
    random: &mut Random,
    stages: usize,
    (last, options, windows): (&Fake, &LoadOptions, &[Option<usize>]),
) -> (Model, Vec<Fake>) {
    let (plan, checkpoint) = fake::plan(VOCAB, CONTEXT, windows);
    // the last one, whose tokens count, has a layer: a part without any is given no efforts
    let mut layers: Vec<usize> = (0..windows.len()).collect();
    while layers.len() >= stages {
        layers.remove(random.below(layers.len()));
    }
    let other = |_| {
        let fake = Fake::default().slow_passes(Duration::from_micros(random.below(300) as u64));
        let fake = fake.part_of(last);
        if last.pipeline.phases_agree { fake } else { fake.with_phases() }
    };
    let others: Vec<Fake> = (1..stages).map(other).collect();
    let all = others.iter().chain([last]).cloned();
    let devices = all.map(|fake| Arc::new(fake) as Arc<dyn Backend>).collect();
    let split = Split::new(devices, layers).unwrap();
    (Engine::with_backend(split).load_plan(plan, checkpoint, options).unwrap(), others)
}

/// One schedule over 1 to 3 devices. Everything random about it comes from its seed, but for the
/// threads' timing. Returns the model's status at the end.
fn schedule(family: &Family, seed: u64) -> Status {
    let mut random = Random::new(seed);
    let mut fake = Fake::pipelined(1 + random.below(3), [1, 4, 32][random.below(3)]);
    fake.pipeline.stages = [1, 1, 2, 3][random.below(4)];
    if !family.fake.pipeline.phases_agree {
        fake = fake.with_phases();
    }
    fake.pipeline.streams = family.fake.pipeline.streams;
    if random.below(2) == 0 {
        // more that decode share their passes with prompts
        fake.pipeline.exact_rows = 1 + random.below(3);
    }
    let sequences = 1 + random.below(6);
    // room for one at full length, or for more
    let pages = 15 + random.below(4 * sequences);
    let options = LoadOptions::default()
        .context(960)
        .max_concurrent(sequences)
        .rows([64, 128, 512][random.below(3)])
        .kv_memory(memory((pages + 60) * 64 * family.windows.len()))
        .prefill_budget(Duration::from_micros(random.below(2000) as u64))
        .speculation([Speculation::Off, Speculation::Auto, Speculation::Always][random.below(3)]);
    let options = match family.windows.contains(&None) && random.below(4) > 0 {
        true => options.kv_memory(memory_of(family.windows, pages, sequences)),
        false => options,
    };
    // the fake's recurrent state belongs to no step, so that no part has it
    let stages = if family.is_recurrent { 1 } else { 1 + Random::new(seed ^ 77).below(3) };
    let stages = stages.min(family.windows.len() + 1);
    let (model, others) = match stages {
        1 => ((family.load)(&fake, &options, family.windows), Vec::new()),
        _ => {
            let of = (&fake, &options, family.windows);
            load_split(&mut Random::new(seed), stages, of)
        }
    };
    let may_fail = random.below(3) == 0;
    if may_fail {
        for i in 0..1 + random.below(3) {
            let kind = [Failure::Submit, Failure::SubmitPanic, Failure::Take, Failure::TakePanic];
            fake.fail_after(20 * i + random.below(15), kind[random.below(4)]);
        }
    }
    let mut runs = Vec::new();
    for _ in 0..2 + random.below(16) {
        let (request, expected) = &family.requests[random.below(family.requests.len())];
        let mut request = request.clone();
        if random.below(10) == 0 {
            request = request.deadline(Duration::from_micros(random.below(5000) as u64));
        }
        request = request.cache_salt((random.below(5) == 0).into());
        request.prediction = prediction(&mut random, &expected.1);
        let run = submit(&model, request).unwrap();
        let cancel = random.below(4) == 0;
        if cancel && random.below(4) == 0 {
            run.handle.cancel();
        }
        runs.push((run, expected, cancel));
        if random.below(3) == 0 {
            thread::sleep(Duration::from_micros(random.below(1500) as u64));
        }
        if random.below(3) == 0 {
            // cancel an earlier one
            let (run, _, cancel) = &runs[random.below(runs.len())];
            if *cancel {
                run.handle.cancel();
            }
        }
    }
    for (i, (run, expected, cancel)) in runs.iter().enumerate() {
        let (prompt, tokens, end) = run.all();
        let (scored, expected) = expected;
        let what = format!("seed {seed}, request {i}: {end:?}");
        assert_eq!(tokens, expected[..tokens.len().min(expected.len())], "{what}");
        assert!(prompt == *scored || prompt.is_empty() && tokens.is_empty(), "{what}");
        match end {
            End::Finished(FinishReason::Length, _) => {
                assert_eq!((&prompt, &tokens), (scored, expected), "{what}");
            }
            End::Finished(FinishReason::Cancelled, _) => assert!(cancel, "{what}"),
            End::Failed(Error::Deadline(_)) => {}
            End::Failed(Error::Pass(_)) => assert!(may_fail, "{what}"),
            _ => panic!("{what}"),
        }
    }
    assert_all_pages_back(&model);
    let status = model.status();
    drop(model);
    others.iter().chain([&fake]).for_each(assert_sound);
    status
}

/// Memory for this many pages of the groups without a window.
fn memory_of(windows: &[Option<usize>], pages: usize, sequences: usize) -> pelton::KvMemory {
    let windowed = windows.iter().flatten().count() * (2 * sequences * 4 + 8);
    memory((pages + windowed) * 64)
}

#[test]
fn any_schedule_gives_each_request_its_own_text() {
    let schedules = if env::var_os("PELTON_FULL").is_some() { 20_000 } else { 300 };
    let families = families();
    let (mut hits, mut preemptions, mut evictions, mut failed) = (0, 0, 0, 0);
    let (mut drafted, mut accepted) = (0, 0);
    for seed in 0..schedules {
        println!("seed {seed}");
        let status = schedule(&families[seed as usize % families.len()], seed);
        hits += status.prefix_hit_tokens;
        preemptions += status.preemptions;
        evictions += status.evictions;
        failed += status.failed_passes;
        drafted += status.speculation.drafted;
        accepted += status.speculation.accepted;
    }
    println!("{drafted} drafted, {accepted} accepted");
    println!("{hits} hit, {preemptions} preempted, {evictions} evicted, {failed} failed");
    assert!(
        hits > 50 * schedules && preemptions > schedules / 50,
        "{hits} hits and {preemptions} preemptions in {schedules}"
    );
    assert!(evictions > schedules && failed > schedules / 10);
    assert!(accepted > 50 * schedules && drafted - accepted > 50 * schedules);
}
