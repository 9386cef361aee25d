//! Several backends as one: each has a range of layers.

use std::sync::Arc;

use pelton_graph::{Backend, EffortForm, Error, Executable, Limits, Needs, Op, Plan, TableRow};
use pelton_weights::Checkpoint;

use crate::{
    backoff::Backoff,
    cut::cut,
    executable::{LoadedPart, SplitExecutable},
};

/// Several backends, in the order in which a pass goes through them.
#[derive(Clone)]
pub struct Split {
    devices: Vec<Arc<dyn Backend>>,
    /// The first layer of each device after the first.
    layers: Vec<usize>,
    name: String,
}

impl Split {
    /// A split before each of `layers`, one less than there are devices.
    ///
    /// # Errors
    ///
    /// [`Error::Placement`] if there are more or fewer.
    pub fn new(devices: Vec<Arc<dyn Backend>>, layers: Vec<usize>) -> Result<Self, Error> {
        if layers.len() + 1 != devices.len() {
            return Err(Error::Placement(format!(
                "{} devices and {} cuts between them, expected one cut less than devices",
                devices.len(),
                layers.len()
            )));
        }
        let names: Vec<&str> = devices.iter().map(|device| device.name()).collect();
        let name = names.join(" + ");
        Ok(Self { devices, layers, name })
    }

    /// The part of each device, with the fused ops that it accepts.
    ///
    /// # Errors
    ///
    /// [`Error::Placement`] if the plan cannot be cut so.
    pub fn parts(&self, plan: &Plan) -> Result<Vec<(&dyn Backend, Plan)>, Error> {
        let parts = cut(plan, &self.layers)?.into_iter().zip(&self.devices);
        let fused = parts.map(|(part, device)| {
            let device = device.as_ref();
            (device, part.fuse(&|op, plan| device.accepts(op, plan)))
        });
        Ok(fused.collect())
    }
}

/// The limits of a part of a model.
pub fn limits_of(part: &Plan, limits: &Limits) -> Limits {
    Limits { tokens: limits.tokens.min(part.output_width()), ..limits.clone() }
}

/// Bytes of a plan's weights in their file.
pub fn file_bytes(plan: &Plan) -> u64 {
    let bytes = plan.weights.iter().filter_map(|weight| weight.dtype.bytes_of(weight.len()));
    bytes.map(|bytes| bytes as u64).sum()
}

/// Whether the steps of a part read the tokens of rows.
fn reads_tokens(part: &Plan) -> bool {
    part.steps.iter().any(|step| {
        matches!(step.op, Op::Embed { .. } | Op::AddTable { row: TableRow::TokenType, .. })
    })
}

impl Backend for Split {
    fn name(&self) -> &str {
        &self.name
    }

    /// No fused op: each part is fused for its own device.
    fn accepts(&self, op: &Op, plan: &Plan) -> bool {
        op.is_elementary() && self.devices.iter().any(|device| device.accepts(op, plan))
    }

    fn has_effort(&self, form: EffortForm) -> bool {
        self.devices.iter().all(|device| device.has_effort(form))
    }

    fn needs(&self, plan: &Plan, limits: &Limits) -> Result<Needs, Error> {
        let mut sum = Needs::default();
        for (device, part) in self.parts(plan)? {
            sum = sum.plus(&device.needs(&part, &limits_of(&part, limits))?);
        }
        Ok(sum)
    }

    /// A quarter of the rows that all devices are fast with, but at least 512: devices compute
    /// chunks of a prompt in turn, and the last one waits for its first chunk. Two H100 read 16,384
    /// tokens of an 8B at 17,958 tokens/s in chunks of 512, at 17,829 in chunks of 1,024 and at
    /// 16,767 in chunks of 2,048. Rows are not divided if a device streams weights for each chunk.
    fn prompt_rows(&self, plan: &Plan, weights: u64) -> usize {
        const LEAST: usize = 512;
        let rows = self.devices.iter().map(|device| device.prompt_rows(plan, weights));
        let rows = rows.min().unwrap_or(1);
        match self.devices.iter().any(|device| device.streams_weights()) {
            true => rows,
            false => rows.min(LEAST.max(rows / 4)),
        }
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        let parts = self.parts(&plan)?;
        for (device, part) in &parts {
            if let Some(budget) = device.budget() {
                let needs = device.needs(part, &limits_of(part, &limits))?;
                needs.check(device.name(), budget, 0)?;
            }
        }
        let all: u64 = parts.iter().map(|(_, part)| file_bytes(part)).sum();
        let mut before = 0;
        let mut loaded = Vec::with_capacity(parts.len());
        for (device, part) in parts {
            let (own, limits) = (file_bytes(&part), limits_of(&part, &limits));
            let (name, reads_tokens) = (device.name().to_owned(), reads_tokens(&part));
            let has_effort = part.has_effort();
            let executable =
                device.load(part, Arc::clone(&checkpoint), limits, &mut |done, _| {
                    progress(before + done.min(own), all);
                })?;
            before += own;
            loaded.push(LoadedPart { device: name, executable, reads_tokens, has_effort });
        }
        // a driver in software has no rates, and shares cores with the threads that wait
        let of_gpus = self.devices.iter().all(|device| {
            device.name() != "cpu" && device.rates_key().is_some() && !device.streams_weights()
        });
        Ok(Box::new(SplitExecutable::new(plan, limits, loaded, Backoff::new(of_gpus))?))
    }
}
