//! Whisper's plan: its steps, its fused form, refused keys and tensors, and refused passes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use pelton_graph::{
    BuildOptions, Error, Hidden, Input, KvType, Limits, Mask, Op, PageTables, Pass, Phase, Plan,
    Row, TableEdit, Want, build, build_head, build_with,
};
use pelton_testing::WhisperSpec;

fn small() -> WhisperSpec {
    WhisperSpec {
        positions: 70,
        context: 10,
        mels: 4,
        vocab: 30,
        encoder_layers: 1,
        decoder_layers: 1,
        alignment_heads: vec![[0, 1]],
        ..WhisperSpec::default()
    }
}

fn names(plan: &Plan, phase: Phase) -> Vec<&'static str> {
    plan.steps[plan.steps_of(phase)].iter().map(|step| step.op.name()).collect()
}

#[test]
fn steps_of_both_stacks() {
    let plan = build(&small().checkpoint()).unwrap();
    let convolutions = [
        &["copy", "linear", "activate", "copy", "glu", "copy"][..],
        &["copy", "linear", "activate", "copy"],
        &["copy", "linear", "activate", "copy"],
        &["linear", "activate"],
    ]
    .concat();
    let attention = ["norm", "linear", "linear", "linear", "store", "attend", "linear", "add"];
    let feed_forward = ["norm", "linear", "activate", "linear", "add"];
    let cross = ["norm", "linear", "copy", "attend", "linear", "add"];
    let encoder = [
        &convolutions[..],
        &["add_table"],
        &attention,
        &feed_forward,
        &["norm"],
        &["linear", "linear", "store", "copy"],
    ]
    .concat();
    let decoder = [
        &["embed", "add_table"][..],
        &attention,
        &cross,
        &feed_forward,
        &["select", "norm", "linear"],
    ]
    .concat();
    assert_eq!(names(&plan, Phase::Encode), encoder);
    assert_eq!(names(&plan, Phase::Prompt), decoder);
    assert_eq!(names(&plan, Phase::Decode), decoder);
    let window = Mask::Window { positions: 70 };
    let masks: Vec<Mask> = plan
        .steps
        .iter()
        .filter_map(|step| match &step.op {
            Op::Attend(attention) => Some(attention.mask),
            _ => None,
        })
        .collect();
    assert_eq!(masks, [window, Mask::Causal { window: None }, window]);
}

/// Fused steps stay on their side, and the results of both sides keep their buffers.
#[test]
fn fused_steps() {
    let plan = build(&small().checkpoint()).unwrap();
    let width = |plan: &Plan, phase| plan.width_of(plan.kept(phase));
    let widths = [Phase::Encode, Phase::Decode].map(|phase| width(&plan, phase));
    assert_eq!(widths, [64; 2]);
    let fused = plan.fuse(&|_, _| true);
    assert_eq!([Phase::Encode, Phase::Decode].map(|phase| width(&fused, phase)), widths);
    let features = fused.given(Phase::Encode)[0];
    assert_eq!(fused.buffer(features).width, 9 * 4 + 1);
    let block =
        ["norm_linear", "store", "attend", "linear_add", "norm_linear", "activate", "linear_add"];
    let encoder = names(&fused, Phase::Encode);
    assert!(encoder.windows(7).any(|steps| steps == block), "{encoder:?}");
    assert_eq!(encoder.last(), Some(&"copy"));
    assert_eq!(names(&fused, Phase::Decode)[0], "embed");
}

#[test]
fn kept_states_in_place_of_heads() {
    let options = BuildOptions { hidden: true, ..BuildOptions::default() };
    let plan = build_with(&small().checkpoint(), &options).unwrap();
    assert_eq!(plan.width_of(plan.kept(Phase::Encode)), 128);
    assert!(plan.kept(Phase::Decode).is_empty());
    let without = WhisperSpec { alignment_heads: Vec::new(), ..small() };
    assert!(build(&without.checkpoint()).unwrap().kept(Phase::Encode).is_empty());
    assert!(build_head(&small().checkpoint(), &options).unwrap().is_none());
}

#[test]
fn heads_that_do_not_exist() {
    for pair in [[1, 0], [0, 2]] {
        let spec = WhisperSpec { alignment_heads: vec![pair], ..small() };
        let error = build(&spec.checkpoint()).unwrap_err().to_string();
        assert!(error.contains("whisper.alignment_heads"), "{error}");
        assert!(error.contains("a layer below 1 and a head below 2"), "{error}");
    }
}

#[test]
fn passes_of_windows() {
    let plan = build(&small().checkpoint()).unwrap();
    let limits = Limits {
        rows: 140,
        wants: 2,
        sequences: 3,
        context: 10,
        pages: vec![1, 4, 4],
        snapshots: 0,
        kv: KvType::F16,
        tokens: 30,
        bias: 0,
    };
    let mut tables = PageTables::for_plan(&plan, &limits);
    for (group, slot, pages) in [
        (1, 0, &[0, 1][..]),
        (2, 0, &[0, 1]),
        (1, 1, &[0]),
        (2, 1, &[2, 3]),
        (0, 2, &[0]),
        (1, 2, &[0, 1]),
    ] {
        tables.apply(&TableEdit { group, slot, first: 0, pages }).unwrap();
    }
    let rows = |slot| -> Vec<Row> {
        (0..70).map(|position| Row { input: Input::Features, position, slot }).collect()
    };
    let features = vec![0.0; 70 * 37];
    let window = rows(0);
    let pass = Pass { hidden: Hidden::Given(&features), ..Pass::new(Phase::Encode, &window, &[]) };
    let check = |pass: &Pass<'_>| match pass.check(&plan, &limits, &tables) {
        Ok(()) => String::new(),
        Err(Error::Pass(what)) => what,
        Err(other) => panic!("{other}"),
    };
    assert_eq!(check(&pass), "");
    let refused = [
        (
            Pass { hidden: Hidden::NONE, ..pass },
            "0 elements of hidden states, expected 2590 for 70 rows",
        ),
        (Pass { rows: &window[..69], ..pass }, "69 rows of slot 0, expected the 70 positions"),
        (Pass { rows: &[&window[..], &window].concat(), ..pass }, "140 rows of slot 0"),
        (Pass { wants: &[Want::Logits { row: 0 }], ..pass }, "expected no wants"),
        (Pass { phase: Phase::Prompt, ..pass }, "row 0 is Features in the phase Prompt"),
        (Pass { rows: &rows(1), ..pass }, "position 64 of row 64 is past the 1 pages"),
    ];
    for (pass, what) in refused {
        let found = check(&pass);
        assert!(found.contains(what), "{found:?} without {what:?}");
    }
    let token = |position, slot| [Row { input: Input::Token(1), position, slot }];
    assert_eq!(check(&Pass::new(Phase::Decode, &token(9, 2), &[])), "");
    let found = check(&Pass::new(Phase::Decode, &token(10, 2), &[]));
    assert!(found.contains("not below the context's 10"), "{found}");
    // a slot without the pages of a window
    let found = check(&Pass::new(Phase::Decode, &token(0, 1), &[]));
    assert!(found.contains("cache group 0"), "{found}");
    let found = check(&Pass::new(Phase::Encode, &token(0, 0), &[]));
    assert!(found.contains("1 rows of slot 0"), "{found}");
}
