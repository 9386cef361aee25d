//! Counters, gauges and histograms in the text format of Prometheus.

mod histogram;
mod loras;
mod model;
mod text;

pub(crate) use loras::LoraUse;
pub(crate) use model::{ModelMetrics, Outcome};
pub(crate) use text::{Gauges, Http, ReplicaGauges, render};

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The metrics of the server.
#[derive(Default)]
pub(crate) struct Metrics {
    models: Mutex<BTreeMap<String, Arc<ModelMetrics>>>,
    pub(crate) http: Http,
}

impl Metrics {
    /// The metrics of a model; all are 0 at first.
    pub(crate) fn model(&self, name: &str) -> Arc<ModelMetrics> {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(models.entry(name.to_owned()).or_default())
    }
}
