//! The efforts of a loaded model: whether its requests run at them, and where its calibration is from.

use std::{path::Path, time::Duration};

use super::Model;

impl Model {
    /// The file of its calibration for efforts below 1, if there is one.
    pub fn effort_table(&self) -> Option<&Path> {
        self.loaded.effort_table.as_deref()
    }

    /// The times of a token of the whole model and of one at the effort of the load, or at 0.5 if that is 1. Requests
    /// run the whole model if it is as fast. `None` where they were not measured: on CPUs, and with
    /// [`EffortOptions::always`](crate::EffortOptions::always).
    pub fn effort_times(&self) -> Option<[Duration; 2]> {
        self.loaded.effort_times
    }

    /// Whether its weights for efforts below 1 fit in the memory of the GPU. Else requests run the whole model.
    pub fn effort_fits(&self) -> bool {
        self.loaded.effort_fits
    }

    /// Whether its load has measured the thresholds of effort, as there was no calibration.
    pub fn measured_effort(&self) -> bool {
        self.loaded.measured_effort
    }
}
