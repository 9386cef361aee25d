//! Every function of the header with NULL, closed and wrong handles, and from two threads.
//!
//! The program in C is made from the header, so a new function is tested without a change here.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

mod common;
#[path = "common/prototypes.rs"]
mod prototypes;

use std::{fmt::Write, fs, process::Command};

use common::{SANITIZE, Workshop, folder, letters, run};
use prototypes::{Function, Parameter, functions};

/// The kinds of handles, and what closes them.
const KINDS: [(&str, &str); 11] = [
    ("engine", "pelton_engine_close"),
    ("model", "pelton_model_close"),
    ("options", "pelton_options_free"),
    ("request", "pelton_request_free"),
    ("grammar", "pelton_grammar_free"),
    ("stream", "pelton_stream_close"),
    ("session", "pelton_session_close"),
    ("decoder", "pelton_decoder_free"),
    ("text", "pelton_text_free"),
    ("transcription", "pelton_transcription_close"),
    ("error", "pelton_error_free"),
];

/// The kind of handle that a parameter takes, and whether it is a place for one.
fn handle(parameter: &Parameter) -> Option<(&'static str, bool)> {
    let kind = parameter.kind.strip_prefix("const ").unwrap_or(&parameter.kind);
    let name = kind.strip_prefix("pelton_")?.split(' ').next()?;
    let (kind_of, _) = KINDS.iter().find(|(kind, _)| *kind == name)?;
    Some((kind_of, kind.ends_with("* *")))
}

fn is_pointer(parameter: &Parameter) -> bool {
    parameter.kind.ends_with('*') || parameter.kind.ends_with("_fn")
}

/// Whether NULL has a meaning.
fn is_optional(function: &Function, parameter: &Parameter) -> bool {
    let place_of_length = parameter.kind == "size_t *" && parameter.name == "length";
    match &*parameter.name {
        "error" => handle(parameter).is_some_and(|(_, is_place)| is_place),
        "options" => {
            handle(parameter).is_some_and(|(_, is_place)| !is_place)
                && !function.name.starts_with("pelton_options_")
        }
        "user_data" => true,
        "callback" => function.name != "pelton_generate",
        "grammar" => function.name == "pelton_request_set_grammar",
        _ => place_of_length,
    }
}

/// Whether a call with live handles would end one that other calls need.
fn ends_handles(function: &Function) -> bool {
    let name = &function.name;
    name.ends_with("_close") || name.ends_with("_free") || name == "pelton_session_new"
}

/// A value with which the call is right.
fn value(function: &Function, parameter: &Parameter) -> String {
    match handle(parameter) {
        Some((kind, true)) => return format!("&places->{kind}"),
        Some(("model", false)) if function.name.starts_with("pelton_transcribe_") => {
            return "live.speech".to_owned();
        }
        Some((kind, false)) => return format!("live.{kind}"),
        None => {}
    }
    match (&*parameter.kind, &*parameter.name) {
        ("const char *", _) => "\"x\"",
        ("size_t", "capacity") => "8",
        ("size_t", "index" | "positions") | ("int64_t", _) => "0",
        ("uint32_t", "flags" | "level") => "0",
        ("size_t" | "uint32_t" | "double", _) => "1",
        ("size_t *", _) => "&places->size",
        ("uint64_t *", _) => "&places->integer",
        ("double *", _) => "&places->number",
        ("float *", _) => "places->floats",
        ("uint32_t *", _) => "places->ids",
        ("const float *", _) => "samples",
        ("const uint8_t *", _) => "(const uint8_t *)\"x\"",
        ("const uint32_t *", _) => "prompt",
        ("const pelton_string *", _) => "strings",
        ("pelton_token *", _) => "&places->token",
        ("pelton_segment *", _) => "&places->segment",
        ("pelton_tensor *", _) => "&places->tensor",
        ("pelton_token_fn", _) => "on_token",
        ("pelton_ready_fn", _) => "on_ready",
        ("pelton_log_fn", _) => "on_log",
        ("void *", _) => "NULL",
        (kind, name) => panic!("{}: there is no value of {name}, a {kind}", function.name),
    }
    .to_owned()
}

/// A call with values, whose result is compared with `expected`; `None` accepts all.
fn call(function: &Function, values: &[String], expected: Option<&str>) -> String {
    let call = format!("{}({})", function.name, values.join(", "));
    let expected = expected.map(|expected| match &*function.result {
        "pelton_next" => "PELTON_NEXT_ERROR",
        "const char *" => "NULL",
        "uint64_t" => "0",
        _ => expected,
    });
    match expected {
        None => format!("    (void){call};\n    tidy(places);\n"),
        Some(expected) => {
            format!("    EXPECT({call} == {expected});\n    tidy(places);\n")
        }
    }
}

/// The calls of one function with one wrong value each.
fn wrong_calls(function: &Function) -> String {
    let mut text = String::new();
    let right: Vec<String> =
        function.parameters.iter().map(|parameter| value(function, parameter)).collect();
    let with = |at: usize, wrong: &str| {
        let mut values = right.clone();
        values[at] = wrong.to_owned();
        values
    };
    for (at, parameter) in function.parameters.iter().enumerate() {
        if !is_pointer(parameter) {
            continue;
        }
        let optional = is_optional(function, parameter);
        if !(optional && ends_handles(function)) {
            text += &call(function, &with(at, "NULL"), (!optional).then_some("PELTON_NULL"));
        }
        if let Some((kind, false)) = handle(parameter) {
            text += &call(function, &with(at, &format!("ended.{kind}")), Some("PELTON_CLOSED"));
            let other = if kind == "options" { "request" } else { "options" };
            let wrong = format!("(pelton_{kind} *)live.{other}");
            text += &call(function, &with(at, &wrong), Some("PELTON_CLOSED"));
        }
    }
    let nothing = function.parameters.iter().map(|parameter| match is_pointer(parameter) {
        true => "NULL".to_owned(),
        false => "0".to_owned(),
    });
    text + &call(function, &nothing.collect::<Vec<_>>(), None)
}

fn program(all: &[Function]) -> String {
    let (mut wrong, mut right, mut tidy, mut ended) =
        (String::new(), String::new(), String::new(), String::new());
    let mut handles = String::new();
    for (kind, close) in KINDS {
        writeln!(handles, "    pelton_{kind} *{kind};").unwrap();
        writeln!(
            tidy,
            "    if (places->{kind}) {{ {close}(places->{kind}); places->{kind} = NULL; }}"
        )
        .unwrap();
        writeln!(ended, "    EXPECT({close}(ended.{kind}) == PELTON_OK);").unwrap();
        writeln!(ended, "    EXPECT({close}(ended.{kind}) == PELTON_CLOSED);").unwrap();
    }
    for function in all {
        wrong += &wrong_calls(function);
        if !ends_handles(function) {
            let values: Vec<String> =
                function.parameters.iter().map(|one| value(function, one)).collect();
            right += &call(function, &values, None);
        }
    }
    let closes: String =
        KINDS.iter().rev().map(|(kind, close)| format!("    {close}(live.{kind});\n")).collect();
    fs::read_to_string(folder("tests/calls.c"))
        .unwrap()
        .replace("/* HANDLES */", &handles)
        .replace("/* TIDY */", &tidy)
        .replace("/* ENDED */", &ended)
        .replace("/* WRONG */", &wrong)
        .replace("/* RIGHT */", &right)
        .replace("/* CLOSES */", &closes)
}

#[test]
fn wrong_calls_are_errors_and_two_threads_do_no_harm() {
    let Some(workshop) = Workshop::open() else { return };
    let header = fs::read_to_string(folder("include/pelton.h")).unwrap();
    let all = functions(&header);
    assert!(all.len() > 45, "{}", all.len());
    let source = workshop.source("calls.c", &program(&all));
    let text = run(&mut Command::new(workshop.build(&source, &SANITIZE)));
    let checks: usize = text.trim().strip_suffix(" checks").unwrap().parse().unwrap();
    // at least NULL and the closed handle of most functions
    assert!(checks > 3 * all.len(), "{text}");
}

#[test]
fn handles_can_be_closed_in_any_order() {
    let Some(workshop) = Workshop::open() else { return };
    run(&mut Command::new(workshop.build(&folder("tests/order.c"), &SANITIZE)));
}

#[test]
fn live_audio_comes_from_another_thread() {
    let Some(workshop) = Workshop::open() else { return };
    let model = workshop.path("letters.gguf");
    fs::write(&model, letters().file()).unwrap();
    let program = workshop.build(&folder("tests/live.c"), &SANITIZE);
    run(Command::new(program).arg(model));
}
