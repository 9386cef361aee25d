//! The place in a plan that dispatches are made for.

use pelton_graph::{Activation, Step};

use crate::{
    kernels::matvec::Tuning,
    lower::{dispatch::RowClass, handoff::Handoff},
};

/// A step, and the passes for which it is lowered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site<'s> {
    pub(super) step: &'s Step,
    /// The phase and the number of rows.
    pub(super) class: RowClass,
    /// Whether the pass has a single row, which is selected. Then the selected rows are all rows,
    /// and nothing need be copied.
    pub(super) alone: bool,
    /// The launch configuration of the step's products of few rows.
    pub(super) tuning: Tuning,
    /// The function of the next step, which the step's product applies to its result.
    pub(super) activation: Option<Activation>,
    /// The values in scratch memory that the step finds and leaves.
    pub(super) handoff: Handoff,
}

impl Site<'_> {
    /// The same step for rows whose sums are complete at the end of each product.
    pub(super) fn few_rows(self) -> Self {
        match self.class {
            RowClass::ThirtyTwo | RowClass::Many => {
                Self { class: RowClass::Sixteen, handoff: Handoff::default(), ..self }
            }
            _ => self,
        }
    }
}
