//! The matrices of a plan that are kept in input-major order next to those of the file.

use pelton_graph::{Error, Linear, Op, Plan, Weight, WeightId};

use crate::{
    device::Device,
    weights::input_major_layout::{ALIGNMENT, InputMajorLayout},
};

/// The most matrices of one product.
const SIDES: usize = 3;

/// Matrices that a step multiplies together, in input-major order: one after the other in one
/// buffer, each at the place of [`places`].
#[derive(Debug)]
pub(crate) struct InputMajor {
    pub(super) weights: Vec<WeightId>,
    pub(super) buffer: wgpu::Buffer,
}

impl InputMajor {
    /// The buffer of some matrices, without its content.
    pub(super) fn new(device: &Device, plan: &Plan, weights: Vec<WeightId>) -> Result<Self, Error> {
        let lines: Vec<InputMajorLayout> =
            weights.iter().filter_map(|id| lines(plan, *id)).collect();
        let bytes = places(&lines).1 as u64;
        let name = &plan.weight(weights[0]).name;
        if bytes > device.capabilities.binding_bytes {
            return Err(Error::Memory {
                what: "the matrices of a step in a second order",
                needed: u128::from(bytes),
                available: Some(device.capabilities.binding_bytes),
            });
        }
        Ok(Self { buffer: device.buffer(name, bytes)?, weights })
    }

    /// All matrices.
    pub(crate) fn binding(&self) -> wgpu::BufferBinding<'_> {
        self.buffer.as_entire_buffer_binding()
    }
}

/// The first byte of each of some matrices in one buffer, and the end.
pub(crate) fn places(all: &[InputMajorLayout]) -> (Vec<usize>, usize) {
    let mut end = 0;
    let firsts = all.iter().map(|lines| {
        let first = end;
        end = first + lines.sections().end.next_multiple_of(ALIGNMENT);
        first
    });
    (firsts.collect(), end)
}

fn lines(plan: &Plan, id: WeightId) -> Option<InputMajorLayout> {
    input_major_layout_of(plan.weight(id))
}

/// The matrices in input-major order that a step multiplies together: up to three, of a gate and
/// its value both or none.
pub(crate) fn groups_of(plan: &Plan, op: &Op) -> Vec<Vec<WeightId>> {
    let linears: Vec<&Linear> = match op {
        Op::Linear(linear) | Op::LinearAdd(linear) => vec![linear],
        Op::NormLinear { norm: _, linears } => linears.iter().collect(),
        Op::NormGlu { norm: _, gate, up, gating: _ } => vec![gate, up],
        _ => return Vec::new(),
    };
    let mut groups: Vec<Vec<WeightId>> = Vec::new();
    for weight in linears.iter().map(|linear| linear.weight) {
        if lines(plan, weight).is_none() {
            continue;
        }
        match groups.last_mut().filter(|group| group.len() < SIDES) {
            Some(group) => group.push(weight),
            None => groups.push(vec![weight]),
        }
    }
    let is_whole =
        !matches!(op, Op::NormGlu { .. }) || groups.first().is_some_and(|of| of.len() == 2);
    if is_whole { groups } else { Vec::new() }
}

/// The groups of all steps of a plan.
pub(super) fn all_groups(plan: &Plan) -> Vec<Vec<WeightId>> {
    let mut all: Vec<Vec<WeightId>> = Vec::new();
    for group in plan.steps.iter().flat_map(|step| groups_of(plan, &step.op)) {
        if !all.contains(&group) {
            all.push(group);
        }
    }
    all
}

/// The lines of a weight; `None` if all its rows run densely.
pub(crate) fn input_major_layout_of(weight: &Weight) -> Option<InputMajorLayout> {
    let lines = || InputMajorLayout::new(weight.dtype, weight.rows, weight.row_len);
    weight.marked.then(lines).flatten()
}

/// Bytes of all weights in input-major order.
pub(super) fn resident_bytes(plan: &Plan) -> u64 {
    let bytes = |group: Vec<WeightId>| {
        let lines: Vec<InputMajorLayout> = group.iter().filter_map(|id| lines(plan, *id)).collect();
        places(&lines).1 as u64
    };
    all_groups(plan).into_iter().map(bytes).fold(0, u64::saturating_add)
}
