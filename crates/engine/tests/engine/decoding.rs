//! Samplers on the host and constraints, with the built-in model.

use std::{
    io::Write,
    ops::ControlFlow,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use pelton::{
    Constraint, Engine, Error, Event, FinishReason, GenerateOptions, LoadOptions, Model,
    ModelSource, SamplerKind, Sampling, Token,
};
use pelton_cpu::Cpu;
use pelton_testing::{Need, Random, skip};
use serde_json::{Value, json};

use crate::request::{Request, Run};

fn model(sequences: usize) -> Model {
    let options = LoadOptions::default().context(512).max_concurrent(sequences);
    Engine::with_backend(Cpu::new(2)).load(ModelSource::BuiltIn, &options).unwrap()
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 2, "maxLength": 20},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "height": {"type": "number"},
            "kind": {"enum": ["fox", "heron", "frog"]},
            "friends": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string", "pattern": "^[A-Z][a-z]{1,9}$"}, "met": {"type": "string", "format": "date"}},
                    "required": ["name", "met"],
                    "additionalProperties": false
                },
                "maxItems": 3
            },
            "home": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/place"}]}
        },
        "required": ["name", "age", "height", "kind", "friends", "home"],
        "additionalProperties": false,
        "$defs": {"place": {
            "type": "object",
            "properties": {"river": {"type": "boolean"}, "trees": {"const": 7}},
            "required": ["river", "trees"],
            "additionalProperties": false
        }}
    })
}

fn sampling(random: &mut Random) -> Sampling {
    let good = Sampling::default().seed(random.bits());
    match random.below(9) {
        0 => good.mirostat(2).mirostat_tau(3.0),
        1 => good.mirostat(1),
        2 => good.adaptive_target(0.4),
        3 => good.dry_multiplier(0.8).temperature(0.3),
        4 => good.xtc_probability(0.5).xtc_threshold(0.1),
        5 => good.typical_p(0.8).dynatemp_range(0.5),
        6 => good.top_n_sigma(1.0).temperature(2.0),
        7 => good.order(vec![SamplerKind::Temperature, SamplerKind::TopK, SamplerKind::MinP]),
        _ => good.temperature(1.2).repetition_penalty(1.1),
    }
}

fn constraint(random: &mut Random) -> Option<Constraint> {
    match random.below(6) {
        0 => Some(Constraint::JsonSchema(schema())),
        1 => Some(Constraint::JsonObject),
        2 => {
            Some(Constraint::Regex("(The|A) [a-z]{3,8} (ran|sat) by the river, [0-9]{2}\\.".into()))
        }
        3 => Some(Constraint::Gbnf(
            "root ::= \"(\" item (\", \" item)* \")\"\nitem ::= root | [a-z]{2,5}".into(),
        )),
        4 => Some(Constraint::Lark("start: WORD (\" \" WORD)*\nWORD: /[a-z]{1,6}/".into())),
        _ => None,
    }
}

#[test]
fn texts_in_a_batch_equal_those_alone() {
    let mut random = Random::new(7);
    let requests: Vec<Request> = (0..24)
        .map(|i| {
            let prompt = ["Once upon a time", "The little fox", "One day"][random.below(3)];
            let mut request = Request::new(prompt)
                .sampling(sampling(&mut random))
                .max_tokens(8 + random.below(60))
                .cache_salt(i);
            request.constraint = constraint(&mut random);
            if random.below(4) == 0 {
                request.logprobs = Some(2);
            }
            if random.below(4) == 0 && request.constraint.is_some() {
                request = request.constrain_after(["the", ".", "a"][random.below(3)]);
            }
            request
        })
        .collect();
    let alone = model(1);
    let tokens = |model: &Model, request: &Request| -> Vec<Token> {
        model.run(request.clone()).unwrap().map(Result::unwrap).collect()
    };
    let expected: Vec<Vec<Token>> = requests.iter().map(|r| tokens(&alone, r)).collect();
    let together = model(6);
    let streams: Vec<_> = requests.iter().map(|r| together.run(r.clone()).unwrap()).collect();
    for (i, (stream, expected)) in streams.into_iter().zip(&expected).enumerate() {
        let got: Vec<Token> = stream.map(Result::unwrap).collect();
        assert_eq!(&got, expected, "{i}: {:?}", requests[i]);
    }
    // the status is published after the last event
    let begun = Instant::now();
    while together.status().pages[0].private > 0 {
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", together.status());
        thread::sleep(Duration::from_millis(1));
    }
}

/// A chain that always takes the likeliest token says what the draw where the logits are says.
#[test]
fn a_greedy_chain_has_the_tokens_and_log_probabilities_of_a_greedy_draw() {
    let model = model(1);
    let request =
        |sampling| Request::new("Once upon a time").sampling(sampling).max_tokens(40).logprobs(3);
    let order = vec![SamplerKind::MinP, SamplerKind::TopK, SamplerKind::Temperature];
    let host = Sampling::greedy().order(order);
    assert!(host.runs_on_host() && !Sampling::greedy().runs_on_host());
    let tokens = |sampling| -> Vec<Token> {
        model.run(request(sampling)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(tokens(host), tokens(Sampling::greedy()));
}

#[test]
fn texts_match_their_constraints_as_a_whole() {
    let model = model(4);
    let hot = |seed| Sampling::default().temperature(1.5).top_k(0).top_p(1.0).min_p(0.0).seed(seed);
    for seed in 0..10 {
        let regex = Constraint::Regex("(fox|heron)-[0-9]{4}".into());
        let request = Request::new("Its name is ").sampling(hot(seed)).constraint(regex);
        let mut stream = model.run(request).unwrap();
        let text = stream.text().unwrap();
        assert_eq!(stream.finish_reason(), Some(FinishReason::End), "{text}");
        let (kind, number) = text.split_once('-').unwrap();
        assert!(["fox", "heron"].contains(&kind) && number.len() == 4, "{text}");
        assert!(number.bytes().all(|b| b.is_ascii_digit()), "{text}");
    }
    let fixed = "There is nothing to choose here: 1, 2, 3.";
    let request = Request::new("Say: ").constraint(Constraint::Regex(fixed.replace('.', "\\.")));
    let mut stream = model.run(request).unwrap();
    assert_eq!(stream.text().unwrap(), fixed);
    // an unfinished text ends by its length
    let short =
        Request::new("Say: ").constraint(Constraint::Regex("[ab]{50}".into())).max_tokens(3);
    let mut stream = model.run(short).unwrap();
    stream.text().unwrap();
    assert_eq!(stream.finish_reason(), Some(FinishReason::Length));
}

#[test]
fn constraints_begin_at_their_triggers() {
    let model = model(4);
    let digits = || Constraint::Regex("[0-9]{3}".into());
    for seed in 0..8 {
        let request = Request::new("Once upon a time")
            .sampling(Sampling::default().seed(seed))
            .constraint(digits())
            .constrain_after("the")
            .max_tokens(200);
        let mut stream = model.run(request).unwrap();
        let text = stream.text().unwrap();
        assert_eq!(stream.finish_reason(), Some(FinishReason::End), "{text}");
        let (_, after) = text.split_once("the").unwrap();
        assert!(after.len() == 3 && after.bytes().all(|b| b.is_ascii_digit()), "{text}");

        let request = Request::new("Once upon a time")
            .sampling(Sampling::default().seed(seed))
            .constraint(Constraint::Regex("the! [0-9]{3}".into()))
            .constrain_from("the")
            .max_tokens(200);
        let text = model.run(request).unwrap().text().unwrap();
        if let Some((_, after)) = text.split_once("the") {
            assert!(after.len() == 5 && after.starts_with("! "), "{text}");
        }
    }
}

#[test]
fn what_cannot_be_enforced_is_refused_by_name() {
    let model = model(1);
    let refused = |constraint| {
        let request = Request::new("x").constraint(constraint);
        model.run(request).unwrap_err().to_string()
    };
    for keyword in ["not", "if", "contains", "dependentRequired", "x-guidance"] {
        let sentence = refused(Constraint::JsonSchema(json!({"type": "object", keyword: {}})));
        assert!(sentence.contains(&format!("'{keyword}'")), "{sentence}");
    }
    for (constraint, part) in [
        (Constraint::Regex("(".into()), "regular expression"),
        (Constraint::Regex("(?=a)b".into()), "regular expression"),
        (Constraint::Lark("start: missing".into()), "missing"),
        (Constraint::Gbnf("root ::= missing".into()), "'missing' is not defined"),
        (Constraint::Gbnf("root ::= \"a".into()), "line 1"),
        (Constraint::Regex("a".repeat(2 << 20)), "expected at most"),
    ] {
        let sentence = refused(constraint);
        assert!(sentence.contains(part) && sentence.lines().count() == 1, "{sentence}");
    }
    let empty = Request::new("x").constraint(Constraint::JsonObject).constrain_after("");
    assert!(matches!(model.run(empty), Err(Error::RequestOption { .. })));
    let many = Request::new("x").sampling(Sampling::default().mirostat(3));
    assert!(matches!(model.run(many), Err(Error::Sampling(_))));
}

/// JSON at a high temperature, judged by PyPI `jsonschema`.
#[test]
fn generated_json_validates() {
    const VALIDATE: &str = "
import json, sys
import jsonschema
for line in sys.stdin:
    case = json.loads(line)
    validator = jsonschema.Draft202012Validator(
        case['schema'], format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    errors = [error.message for error in validator.iter_errors(json.loads(case['text']))]
    print(json.dumps(errors))
";
    let python = std::env::var_os("PELTON_PYTHON").unwrap_or_else(|| "python3".into());
    let has = Command::new(&python).args(["-c", "import jsonschema"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        return skip(Need::Python, "no python with jsonschema");
    }
    let count = if std::env::var_os("PELTON_FULL").is_some() { 500 } else { 40 };
    let model = model(8);
    let any =
        json!({"type": "object", "properties": {"a": {}}, "required": ["a"], "maxProperties": 3});
    let streams: Vec<_> = (0..count)
        .map(|seed| {
            let schema = if seed % 4 == 3 { any.clone() } else { schema() };
            let hot = Sampling::default().temperature(1.5).seed(seed);
            // draws from the whole vocabulary, where numbers and strings get long
            let hot = if seed % 5 == 4 { hot.top_k(0).top_p(1.0).min_p(0.0) } else { hot };
            let request = Request::new("A description of the animal in JSON:\n")
                .constraint(Constraint::JsonSchema(schema.clone()))
                .sampling(hot);
            (schema, model.run(request).unwrap())
        })
        .collect();
    let mut lines = String::new();
    let mut ended = 0;
    for (schema, mut stream) in streams {
        let text = stream.text().unwrap();
        // one that reaches the end of the context is not finished
        if stream.finish_reason() == Some(FinishReason::End) {
            ended += 1;
            lines += &format!("{}\n", json!({"schema": schema, "text": text}));
        }
    }
    assert!(ended * 10 >= count * 8, "{ended} of {count} ended");
    let mut child = Command::new(&python)
        .args(["-c", VALIDATE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let judged = String::from_utf8(output.stdout).unwrap();
    for (errors, case) in judged.lines().zip(lines.lines()) {
        assert_eq!(errors, "[]", "{case}");
    }
    assert_eq!(judged.lines().count() as u64, ended);
}

/// A step of a lone request's constraint can take a second. A request that comes meanwhile is
/// answered before it ends.
#[test]
fn a_slow_step_holds_no_other_request_up() {
    let model = model(2);
    // after some letters the text is forced without an end, within one terminal
    let slow = Constraint::Gbnf(
        "root ::= [bcdefgh] endless\nendless ::= endless{0,40} \"ab\"?+\"aa\"".to_owned(),
    );
    let (sender, ends) = mpsc::channel();
    let (token, tokens) = mpsc::channel();
    let submit = |name: &'static str, options: GenerateOptions| {
        let (sender, token) = (sender.clone(), token.clone());
        model.submit("Once", options.sampling(Sampling::greedy()), move |event| {
            match event {
                Event::Token(_) => token.send(name).unwrap(),
                Event::Finished { .. } => sender.send((name, None)).unwrap(),
                Event::Failed(error) => sender.send((name, Some(error.to_string()))).unwrap(),
                _ => {}
            }
            ControlFlow::Continue(())
        })
    };
    submit("slow", GenerateOptions::default().max_tokens(20).constraint(slow)).unwrap();
    assert_eq!(tokens.recv(), Ok("slow"));
    // the passes up to the slow step, and its beginning
    thread::sleep(Duration::from_millis(100));
    submit("other", GenerateOptions::default().max_tokens(2)).unwrap();
    let first = ends.recv().unwrap();
    assert_eq!(first, ("other", None));
    let (name, error) = ends.recv().unwrap();
    assert_eq!(name, "slow");
    assert!(error.is_some_and(|error| error.contains("work")));
}
