//! Sixteen clients of one model with random requests: 4 seconds, 45 with `PELTON_FULL`, or as many
//! as `PELTON_SOAK` says.

use std::{
    ops::ControlFlow,
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use pelton::{
    Constraint, Engine, Error, Event, KvMemory, LoadOptions, Model, ModelSource, Sampling,
    Speculation, Token,
};
use pelton_cpu::Cpu;
use pelton_testing::Random;
use serde_json::json;

use crate::request::{Request, Run};

const CLIENTS: usize = 16;
/// Bytes of 12 pages of the built-in model, two for each sequence that runs: texts have up to
/// three.
const KV_BYTES: u64 = 12 * 64 * 4096;

fn seconds() -> u64 {
    let full = std::env::var_os("PELTON_FULL").is_some();
    let given = std::env::var("PELTON_SOAK").ok();
    given.map_or(if full { 45 } else { 4 }, |seconds| seconds.parse().unwrap())
}

fn model_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny/pelton-tiny.gguf")
}

fn sampling(random: &mut Random) -> Sampling {
    let seeded = Sampling::default().seed(random.bits());
    match random.below(8) {
        0 => Sampling::greedy(),
        1 => seeded.mirostat(2),
        2 => seeded.dry_multiplier(0.8),
        3 => seeded.temperature(1.5).top_k(0).top_p(1.0).min_p(0.0),
        4 => seeded.repetition_penalty(1.2).frequency_penalty(0.5),
        5 => Sampling::greedy().presence_penalty(1.0),
        _ => seeded,
    }
}

fn constraint(random: &mut Random) -> Constraint {
    let kind = json!({"enum": ["fox", "heron", "frog"]});
    match random.below(5) {
        0 => Constraint::JsonObject,
        1 => Constraint::JsonSchema(json!({
            "type": "object", "required": ["name", "kind"], "additionalProperties": false,
            "properties": {"name": {"type": "string", "maxLength": random.below(30)}, "kind": kind}
        })),
        2 => Constraint::Regex(format!("(The|A) [a-z]{{3,{}}} ran\\.", 5 + random.below(9))),
        3 => Constraint::Gbnf("root ::= \"(\" (root | [a-z]{2,5})* \")\"".into()),
        _ => Constraint::Lark("start: WORD (\" \" WORD)*\nWORD: /[a-z]{1,6}/".into()),
    }
}

/// A request that the model accepts.
fn request(random: &mut Random) -> Request {
    let words = ["Once upon a time", "the little fox", "saw a heron", "by the river", "One day"];
    let prompt: Vec<&str> = (0..1 + random.below(24)).map(|_| words[random.below(5)]).collect();
    let mut request = Request::new(prompt.join(", "))
        .sampling(sampling(random))
        .max_tokens(1 + random.below(70))
        .cache_salt(random.below(3) as u64);
    if random.below(2) == 0 {
        request = request.constraint(constraint(random));
        if random.below(4) == 0 {
            request = request.constrain_after(["the", ".", "a"][random.below(3)]);
        }
    }
    if random.below(5) == 0 {
        request = request.logprobs(random.below(4));
    }
    if random.below(5) == 0 {
        request = request.stop([" she", ".", " friend"][random.below(3)]);
    }
    if random.below(6) == 0 {
        request = request.logit_bias(random.below(200) as u32, 2.0);
    }
    request
}

/// A request that is an error.
fn refused(random: &mut Random) -> Request {
    match random.below(6) {
        0 => Request::from_tokens(vec![]),
        1 => Request::from_tokens(vec![u32::MAX]),
        2 => Request::new("x ".repeat(2000)),
        3 => Request::new("x").constraint(Constraint::Regex("(".into())),
        4 => Request::new("x").constraint(Constraint::JsonSchema(json!({"not": {}}))),
        _ => Request::new("x").sampling(Sampling::default().top_p(f32::NAN)),
    }
}

/// The result of a request alone.
struct Known {
    request: Request,
    tokens: Vec<Token>,
}

#[derive(Debug, Default)]
struct Counts {
    whole: AtomicU64,
    cancelled: AtomicU64,
    late: AtomicU64,
    busy: AtomicU64,
    refused: AtomicU64,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// A client that finds the queue full tries again a little later.
fn busy(counts: &Counts) {
    add(&counts.busy);
    thread::sleep(Duration::from_millis(2));
}

/// One request of a client: it runs to its end, or is cancelled in one of several ways.
fn step(model: &Model, known: &[Known], random: &mut Random, counts: &Counts) {
    if random.below(8) == 0 {
        assert!(model.run(refused(random)).is_err());
        return add(&counts.refused);
    }
    let Known { request, tokens: expected } = &known[random.below(known.len())];
    let mut request = request.clone();
    request = match random.below(3) {
        0 => request.speculation(Speculation::Off),
        1 => request.speculation(Speculation::Always),
        _ => request,
    };
    if random.below(3) == 0 {
        let wrong = 2 + random.below(20);
        let ids = expected.iter().map(|token| token.id);
        let ids = ids.map(|id| if random.below(wrong) == 0 { 1 + id / 2 } else { id });
        request = request.prediction(ids.collect::<Vec<u32>>());
    }
    if random.below(8) == 0 {
        request = request.deadline(Duration::from_millis(random.below(200) as u64));
    }
    if random.below(10) == 0 {
        // a callback that stops
        let mut left = random.below(10);
        let sink = move |event| match event {
            Event::Token(_) if left > 0 => {
                left -= 1;
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(()),
        };
        match model.submit_request(request, sink) {
            Ok(_) => add(&counts.cancelled),
            Err(Error::Busy { .. }) => busy(counts),
            Err(error) => panic!("{error}"),
        }
        return;
    }
    let mut stream = match model.run(request.clone()) {
        Ok(stream) => stream,
        Err(Error::Busy { .. }) => return busy(counts),
        Err(error) => panic!("{error}: {request:?}"),
    };
    let stop_at = if random.below(4) == 0 { random.below(30) } else { usize::MAX };
    let by_handle = random.below(2) == 0;
    let mut tokens = Vec::new();
    while let Some(token) = stream.next() {
        match token {
            Ok(token) => tokens.push(token),
            Err(Error::Deadline(_)) => {
                add(&counts.late);
                break;
            }
            Err(error) => panic!("{error}: {request:?}"),
        }
        if tokens.len() > stop_at {
            stream.handle().cancel();
            add(&counts.cancelled);
            if !by_handle {
                break;
            }
        }
    }
    let common = tokens.len().min(expected.len());
    assert_eq!(tokens[..common], expected[..common], "{request:?}");
    if request.deadline.is_none() && stop_at == usize::MAX {
        assert_eq!(tokens.len(), expected.len(), "{request:?}");
        add(&counts.whole);
    }
}

/// Resident memory in bytes, on Linux.
fn resident() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

#[test]
fn random_requests_of_sixteen_clients() {
    let engine = Engine::with_backend(Cpu::new(2));
    let mut random = Random::new(11);
    let options = LoadOptions::default().context(320);
    let plain = options.clone().speculation(Speculation::Off);
    let alone = engine.load(ModelSource::BuiltIn, &plain).unwrap();
    let known: Vec<Known> = (0..if seconds() > 10 { 200 } else { 40 })
        .map(|_| {
            let request = request(&mut random);
            let tokens = alone.run(request.clone()).unwrap().map(Result::unwrap).collect();
            Known { request, tokens }
        })
        .collect();
    drop(alone);
    let options = options
        .max_concurrent(6)
        .kv_memory(KvMemory::Bytes(KV_BYTES))
        .queue_requests(6)
        .draft(model_file());
    let model = engine.load(ModelSource::BuiltIn, &options).unwrap();
    println!("{:?}", model.status().pages);
    let (counts, ends) = (Counts::default(), AtomicBool::new(false));
    let time = Duration::from_secs(seconds());
    let begun = Instant::now();
    // after a minute, or a third of a shorter run, memory no longer grows
    let settled = time / if seconds() >= 180 { (seconds() / 60) as u32 } else { 3 };
    let mut least = None;
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (model, known, counts, ends) = (&model, &known, &counts, &ends);
            scope.spawn(move || {
                let mut random = Random::new(client as u64 + 1);
                while !ends.load(Ordering::Relaxed) {
                    step(model, known, &mut random, counts);
                }
            });
        }
        while begun.elapsed() < time {
            thread::sleep(Duration::from_millis(200));
            if least.is_none() && begun.elapsed() >= settled {
                least = resident();
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
    let most = resident();
    let status = model.status();
    println!("{counts:?}, memory {least:?} to {most:?}, {status:?}");
    // requests whose callbacks stopped end with their passes
    let begun = Instant::now();
    loop {
        let status = model.status();
        if status.running + status.queued + status.preempted == 0
            && status.pages.iter().all(|pages| pages.private == 0)
        {
            for pages in &status.pages {
                assert_eq!(pages.free + pages.cached, pages.total, "{status:?}");
                assert_eq!(pages.evictable, pages.cached, "{status:?}");
            }
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{status:?}");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status.failed_passes, 0);
    let all = [&counts.whole, &counts.cancelled, &counts.busy, &counts.refused];
    assert!(all.iter().all(|count| count.load(Ordering::Relaxed) > 0), "{counts:?}");
    assert!(status.speculation.accepted > 0 && status.prefix_hit_tokens > 0, "{status:?}");
    if let (Some(least), Some(most)) = (least, most) {
        let allowed = least + least / 20 + (8 << 20);
        // a short run has not seen everything by a third of its time
        assert!(seconds() < 30 || most < allowed, "memory grew from {least} to {most} bytes");
    }
    // the model answers as at its beginning
    for Known { request, tokens } in known.iter().take(8) {
        let again: Vec<Token> = model.run(request.clone()).unwrap().map(Result::unwrap).collect();
        assert_eq!(&again, tokens);
    }
}
