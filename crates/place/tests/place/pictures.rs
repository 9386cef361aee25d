//! Prompts with pictures over several devices: the bits of one.

use std::sync::Arc;

use pelton_cpu::Cpu;
use pelton_graph::{Backend, Executable, Input, Pass, Phase, Plan, Row, TableEdit, Want, build};
use pelton_place::{Split, borders};
use pelton_testing::{
    ModelSpec,
    backend::assert_same,
    pictured::{PROMPT, after, embeddings, pictured, prompt},
};

use crate::common::{self, limits_for};

/// Logits of a prompt with a picture, and of tokens after it.
fn run(executable: &mut dyn Executable, plan: &Plan) -> Vec<f32> {
    let tables = common::edits(plan, &[2, 0]);
    let mut all = Vec::new();
    let mut add = |pass: Pass<'_>, tables: &[TableEdit<'_>]| {
        let ticket = executable.submit(&Pass { tables, ..pass }).unwrap();
        all.extend_from_slice(executable.take(ticket).unwrap().logits);
    };
    let (rows, places) = prompt(0);
    let wants: Vec<Want<'_>> = (0..PROMPT).map(|row| Want::Logits { row }).collect();
    let embeddings = embeddings(plan);
    let pass = Pass::new(Phase::Prompt, &rows, &wants);
    add(Pass { places: &places, embeddings: &embeddings, ..pass }, &tables);
    for position in PROMPT..PROMPT + 3 {
        let rows = [Row { input: Input::Token(position), position, slot: 0 }];
        let (places, wants) = ([after(position)], [Want::Logits { row: 0 }]);
        add(Pass { places: &places, ..Pass::new(Phase::Decode, &rows, &wants) }, &[]);
    }
    all
}

#[test]
fn every_border_of_a_model_with_pictures() {
    for window in [None, Some(6)] {
        let spec = ModelSpec { layers: 3, window, ..ModelSpec::default() };
        let checkpoint = Arc::new(spec.checkpoint());
        let plan = pictured(build(&checkpoint).unwrap());
        let load = |backend: &dyn Backend| {
            let fused = plan.clone().fuse(&|op, plan| backend.accepts(op, plan));
            backend.load(fused, Arc::clone(&checkpoint), limits_for(&plan), &mut |_, _| {}).unwrap()
        };
        let expected = run(&mut *load(&Cpu::new(2)), &plan);
        let borders = borders(&plan);
        assert_eq!(borders, [0, 1, 2, 3]);
        for layer in borders {
            let cpu: Arc<dyn Backend> = Arc::new(Cpu::new(2));
            let split = Split::new(vec![Arc::clone(&cpu), cpu], vec![layer]).unwrap();
            let got = run(&mut *load(&split), &plan);
            assert_same(&got, &expected, &format!("before layer {layer}, window {window:?}"));
        }
    }
}
