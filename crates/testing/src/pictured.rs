//! A language model that takes pictures, and a prompt with one.

use std::ops::Range;

use pelton_graph::{Injected, Input, Mask, Op, Place, Plan, Row, Step};

use crate::Random;

/// Rows of the prompt.
pub const PROMPT: u32 = 20;
/// Those of its picture, in rows of four.
const PICTURE: Range<u32> = 4..16;
/// The distance of coordinates from positions after the picture.
const BEHIND: u32 = 8;

/// The plan of a decoder whose pairs rotate by three axes, whose rows see their picture, and whose
/// pictures have embeddings of two slices.
pub fn pictured(mut plan: Plan) -> Plan {
    for rope in &mut plan.ropes {
        rope.axes = (0..rope.frequencies.len()).map(|i| (i % 3) as u8).collect();
    }
    for step in &mut plan.steps {
        if let Op::Attend(attention) = &mut step.op {
            attention.mask = Mask::CausalOrGroup { window: attention.mask.window() };
        }
    }
    plan.injected = Some(Injected { slices: 2, token: 3 });
    let x = plan.steps[0].outputs[0];
    let inject = |slice, adds, layer| Step {
        op: Op::Inject { slice, adds },
        inputs: vec![x],
        outputs: vec![x],
        layer,
    };
    let first = plan.steps.iter().rposition(|step| step.layer == Some(0)).unwrap();
    plan.steps.insert(first + 1, inject(1, true, Some(0)));
    plan.steps.insert(1, inject(0, false, None));
    plan
}

/// The rows of the prompt from position 0 on, and their places.
pub fn prompt(slot: u32) -> (Vec<Row>, Vec<Place>) {
    let row = |position: u32| {
        let input = match PICTURE.contains(&position) {
            true => Input::Embedding(position - PICTURE.start),
            false => Input::Token(position % 7),
        };
        Row { input, position, slot }
    };
    let place = |position: u32| match position.checked_sub(PICTURE.start) {
        None => Place::of(position),
        Some(i) if position < PICTURE.end => Place {
            at: [PICTURE.start, PICTURE.start + i / 4, PICTURE.start + i % 4],
            group: [PICTURE.start, PICTURE.end],
        },
        Some(_) => after(position),
    };
    ((0..PROMPT).map(row).collect(), (0..PROMPT).map(place).collect())
}

/// The embeddings of its picture.
pub fn embeddings(plan: &Plan) -> Vec<f32> {
    Random::new(3).normals(PICTURE.len() * plan.injected_width(), 0.0, 1.0)
}

/// The place of a token after the picture.
pub fn after(position: u32) -> Place {
    Place { at: [position - BEHIND; 3], ..Place::of(position) }
}
