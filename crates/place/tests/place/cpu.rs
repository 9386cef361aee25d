//! Splits over two and three CPUs: the bits of the whole plan.

use std::sync::Arc;

use pelton_cpu::Cpu;
use pelton_graph::{Backend, Input, KvType, Limits, Pass, Phase, Plan, Row, Sample, Want};
use pelton_place::{Split, borders, cut};
use pelton_sampling::Draw;
use pelton_testing::{
    ModelSpec,
    backend::{Subject, assert_same},
};

use crate::common::{self, Runs, families, limits_for, run};

fn cpus(layers: Vec<usize>) -> Split {
    let cpu: Arc<dyn Backend> = Arc::new(Cpu::new(2));
    Split::new(vec![cpu; layers.len() + 1], layers).unwrap()
}

#[test]
fn every_border_of_every_family() {
    let families = families();
    assert!(families.len() >= 53, "{} models", families.len());
    let cpu = Cpu::new(2);
    let (mut count, mut failed) = (0, String::new());
    for (name, checkpoint, plan) in families {
        let fused = plan.clone().fuse(&|op, plan| cpu.accepts(op, plan));
        let load = |backend: &dyn Backend, plan: &Plan| {
            backend
                .load(plan.clone(), Arc::clone(&checkpoint), limits_for(plan), &mut |_, _| {})
                .unwrap()
        };
        let expected = run(&mut *load(&cpu, &fused), &plan);
        let legal = borders(&plan);
        let all_layers = plan.shape.layers >= 2;
        if all_layers && legal.is_empty() {
            failed += &format!("{name}: no legal border\n");
        }
        let mut splits: Vec<Vec<usize>> = legal.iter().map(|&layer| vec![layer]).collect();
        if let [first, .., last] = *legal {
            splits.push(vec![first, last]);
        }
        for layers in splits {
            let got = run(&mut *load(&cpus(layers.clone()), &plan), &plan);
            if let Some(what) = Runs::difference(&expected, &got) {
                failed += &format!("{name} before {layers:?}: {what}\n");
            }
            count += 1;
        }
    }
    assert!(failed.is_empty(), "\n{failed}");
    assert!(count > 150, "{count} splits");
}

/// A part has its own weights, caches and states alone, and each is in one part.
#[test]
fn parts_are_disjoint() {
    for (name, _, plan) in families() {
        for layer in borders(&plan) {
            let parts = cut(&plan, &[layer]).unwrap();
            let sum = |of: &dyn Fn(&Plan) -> usize| parts.iter().map(of).sum::<usize>();
            assert_eq!(sum(&|plan| plan.caches.len()), plan.caches.len(), "{name}");
            assert_eq!(sum(&|plan| plan.states.len()), plan.states.len(), "{name}");
            assert!(sum(&|plan| plan.weights.len()) >= plan.weights.len(), "{name}");
            for weight in &plan.weights {
                assert!(parts.iter().any(|part| part.weights.contains(weight)), "{name}");
            }
            assert_eq!(parts[0].exit, parts[0].exit, "{name}");
            assert_eq!(
                parts[0].width_of(&parts[0].exit),
                parts[1].width_of(&parts[1].entry),
                "{name} before {layer}"
            );
            assert!(!parts[0].has_results() && parts[1].has_results(), "{name}");
        }
    }
}

#[test]
fn cuts_that_are_not_legal_are_refused() {
    let plan = pelton_graph::build(&ModelSpec::default().checkpoint()).unwrap();
    for layers in [&[3][..], &[1, 1], &[2, 1]] {
        let error = cut(&plan, layers).unwrap_err().to_string();
        assert!(error.contains("cannot be cut before layer"), "{error}");
    }
    assert_eq!(borders(&plan), [0, 1, 2]);
    assert!(Split::new(vec![Arc::new(Cpu::new(1))], vec![1]).is_err());
}

/// The results that every backend must compute.
#[test]
fn the_shared_tests() {
    let reference = Cpu::reference();
    for layers in [vec![0], vec![1], vec![2], vec![0, 1, 2]] {
        let split = cpus(layers);
        let subject = Subject { backend: &split, reference: &reference, tolerance: 0.05 };
        subject.equals_reference();
        subject.sequences_do_not_mix();
        subject.only_wanted_rows();
        subject.copied_pages();
        subject.hostile_passes();
    }
}

/// Passes in flight read sampled tokens that the host has not taken.
#[test]
fn sampled_tokens_reach_the_first_device() {
    let spec = ModelSpec::default();
    let checkpoint = Arc::new(spec.checkpoint());
    let plan = pelton_graph::build(&checkpoint).unwrap();
    let limits = Limits { kv: KvType::F32, ..limits_for(&plan) };
    let texts = [None, Some(vec![1]), Some(vec![0, 2])].map(|layers| {
        let backend: Box<dyn Backend> = match layers {
            None => Box::new(Cpu::new(1)),
            Some(layers) => Box::new(cpus(layers)),
        };
        let fused = plan.clone().fuse(&|op, plan| backend.accepts(op, plan));
        let loaded = backend.load(fused, Arc::clone(&checkpoint), limits.clone(), &mut |_, _| {});
        let mut executable = loaded.unwrap();
        let depth = executable.pipeline().depth;
        let pages = [3, 1];
        let edits = common::edits(&plan, &pages);
        let (mut tickets, mut text) = (std::collections::VecDeque::new(), Vec::new());
        for position in 0..40 {
            if tickets.len() == depth {
                let outputs = executable.take(tickets.pop_front().unwrap()).unwrap();
                text.push(outputs.samples[0].token.unwrap());
            }
            let input = if position == 0 { Input::Token(7) } else { Input::Sampled };
            let rows = [Row { input, position, slot: 0 }];
            let draw = Draw { seed: 3, index: position.into(), ..Draw::GREEDY };
            let wants = [Want::Sample(Sample { row: 0, draw, recent: &[], pending: 0 })];
            let tables = if position == 0 { &edits[..] } else { &[] };
            let pass = Pass { tables, ..Pass::new(Phase::Decode, &rows, &wants) };
            tickets.push_back(executable.submit(&pass).unwrap());
        }
        for ticket in tickets {
            text.push(executable.take(ticket).unwrap().samples[0].token.unwrap());
        }
        text
    });
    assert_eq!(texts[0].len(), 40);
    assert_eq!(texts[0], texts[1]);
    assert_eq!(texts[0], texts[2]);
}

/// A device that fails ends its pass alone, and the edits of that pass are made on all others.
#[test]
fn a_pass_that_fails_on_one_device() {
    let spec = ModelSpec::default();
    let checkpoint = Arc::new(spec.checkpoint());
    let plan = pelton_graph::build(&checkpoint).unwrap();
    for failing in 0..2 {
        let cpu: Arc<dyn Backend> = Arc::new(Cpu::new(1));
        let broken = common::broken();
        let devices = [0, 1].map(|i| Arc::clone(if i == failing { &broken } else { &cpu }));
        let split = Split::new(devices.to_vec(), vec![1]).unwrap();
        let load = |backend: &dyn Backend| {
            let fused = plan.clone().fuse(&|op, plan| backend.accepts(op, plan));
            let limits = limits_for(&plan);
            backend.load(fused, Arc::clone(&checkpoint), limits, &mut |_, _| {}).unwrap()
        };
        let (mut executable, mut whole) = (load(&split), load(&*cpu));
        let pages = [[0], [1]];
        let edits = [0, 1].map(|slot| pelton_graph::TableEdit {
            group: 0,
            slot: slot as u32,
            first: 0,
            pages: &pages[slot],
        });
        let run = |executable: &mut dyn pelton_graph::Executable, slot, edits: &[_]| {
            let rows = [5, 9].map(|token| (token, slot));
            let rows: Vec<Row> = (0..)
                .zip(rows)
                .map(|(position, (token, slot))| Row { input: Input::Token(token), position, slot })
                .collect();
            let wants = [Want::Logits { row: 1 }];
            let pass = Pass { tables: edits, ..Pass::new(Phase::Prompt, &rows, &wants) };
            let ticket = executable.submit(&pass).unwrap();
            executable.take(ticket).map(|outputs| outputs.logits.to_vec())
        };
        let expected = run(&mut *whole, 0, &edits).unwrap();
        assert_same(&run(&mut *executable, 0, &edits[..1]).unwrap(), &expected, "before");
        // the second pass fails, and has the edit of slot 1
        let error = run(&mut *executable, 1, &edits[1..]).unwrap_err().to_string();
        assert!(error.contains("broken on purpose"), "{error}");
        assert_same(&run(&mut *executable, 0, &[]).unwrap(), &expected, "slot 0 afterwards");
        assert_same(&run(&mut *executable, 1, &[]).unwrap(), &expected, "slot 1 afterwards");
    }
}
