//! The model and the machine of a measurement.

use anyhow::Result;
use pelton::{LoadOptions, Model};
use serde_json::{Value, json};

use super::args::Args;
use crate::loader::Loader;

/// The model and the machine of a measurement.
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) parameters: u64,
    pub(super) backend: String,
    pub(super) threads: usize,
}

impl Subject {
    /// Loads the model of a measurement.
    pub(super) fn load(args: &Args, options: LoadOptions) -> Result<(Self, Model)> {
        let loader = Loader::new(&args.load);
        let backend = loader.engine()?.backend().to_owned();
        let options = args.speculate.apply(options)?;
        let model = loader.load(&args.model, options)?;
        let checkpoint = model.checkpoint();
        let subject = Self {
            name: name(&model),
            bytes: checkpoint.file_bytes(),
            parameters: checkpoint.tensors().map(|t| t.row_len() as u64 * t.rows() as u64).sum(),
            backend,
            threads: args.load.threads(),
        };
        Ok((subject, model))
    }

    /// The object that the results of a test are added to.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "model": self.name, "bytes": self.bytes, "parameters": self.parameters,
            "backend": self.backend, "threads": self.threads,
        })
    }

    /// The first columns of [`CSV_HEAD`].
    pub(super) fn to_csv(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let backend = match self.backend.contains([',', '"']) {
            true => quoted(&self.backend),
            false => self.backend.clone(),
        };
        let name = quoted(&self.name);
        format!("{name},{},{},{backend},{}", self.bytes, self.parameters, self.threads)
    }
}

/// The names of the columns of [`Subject::to_csv`].
pub(super) const CSV_HEAD: &str = "model,bytes,parameters,backend,threads";

/// The model's name in its metadata, or else the file's name.
fn name(model: &Model) -> String {
    let checkpoint = model.checkpoint();
    match checkpoint.metadata().opt_string("general.name") {
        Ok(Some(name)) => name.escape_debug().to_string(),
        _ => checkpoint.name().to_owned(),
    }
}
