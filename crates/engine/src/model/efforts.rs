//! The efforts of a loaded model.

use std::{path::PathBuf, time::Duration};

use pelton_graph::{Effort, Plan};

use crate::{
    Error,
    api::EffortLevel,
    session::{effort_of, of_plan},
};

/// The efforts of a loaded model.
pub(super) struct Efforts {
    /// The effort of requests that do not say.
    pub(super) level: Effort,
    /// Whether the weights for efforts below 1 fit in memory.
    pub(super) fits: bool,
    /// The times of a token of the whole model and of one at an effort, where they were measured.
    pub(super) times: Option<[Duration; 2]>,
    /// The file of its calibration, if there is one, and whether this load has measured it.
    pub(super) table: Option<PathBuf>,
    pub(super) is_measured: bool,
}

impl Efforts {
    /// The effort of a request.
    ///
    /// # Errors
    ///
    /// As [`of_plan`]. An effort of a model that has none is refused, unless its copies alone do not fit.
    pub(super) fn of(&self, asked: Option<EffortLevel>, plan: &Plan) -> Result<Effort, Error> {
        let effort = asked.map_or(Ok(self.level), effort_of)?;
        let effort = of_plan(if self.fits { effort } else { Effort::FULL }, plan)?;
        let is_slower = self.times.is_some_and(|[whole, less]| less >= whole);
        Ok(if self.fits && !is_slower { effort } else { Effort::FULL })
    }
}
