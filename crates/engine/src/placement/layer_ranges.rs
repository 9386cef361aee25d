//! The ranges of layers that several GPUs have.

use pelton_graph::{Error as GraphError, Plan, Rows};
use pelton_place::{balance, borders, cut, file_bytes};

use crate::Error;

/// The layers before which a plan is cut, so that each of some devices has its share of
/// those from `first` on.
pub(super) struct LayerRanges<'a> {
    plan: &'a Plan,
    /// The layers before which it can be cut, and the bytes of the weights before the first of
    /// them, between them and after the last.
    borders: Vec<usize>,
    bytes: Vec<f64>,
    /// The bytes that rows of a prompt read: without the output matrix.
    read: Vec<f64>,
}

impl<'a> LayerRanges<'a> {
    pub(super) fn new(plan: &'a Plan) -> Result<Self, Error> {
        let borders = borders(plan);
        let mut bytes: Vec<f64> =
            cut(plan, &borders)?.iter().map(|part| file_bytes(part) as f64).collect();
        if borders.first() == Some(&0) {
            // a token reads a row of the embedding
            bytes[0] = 0.0;
        }
        let mut read = bytes.clone();
        if let Some(last) = read.last_mut() {
            *last -= selected_bytes(plan);
        }
        Ok(Self { plan, borders, bytes, read })
    }

    /// The cuts by which each device reads as much of a prompt's layers. A stream decodes through
    /// all devices in turn, so that the cuts do not matter to it.
    pub(super) fn equal(&self, first: Option<usize>, devices: usize) -> Result<Vec<usize>, Error> {
        self.balanced(first, &self.read, &vec![1.0; devices])
    }

    /// The cuts for devices of some memory.
    pub(super) fn by_memory(
        &self,
        first: Option<usize>,
        memory: &[f64],
    ) -> Result<Vec<usize>, Error> {
        self.balanced(first, &self.bytes, memory)
    }

    /// The cuts of costs for devices of some shares. The CPU has the layers before `first`.
    fn balanced(
        &self,
        first: Option<usize>,
        costs: &[f64],
        shares: &[f64],
    ) -> Result<Vec<usize>, Error> {
        let before = |first| self.borders.iter().take_while(|&&layer| layer <= first).count();
        let skipped = first.map_or(0, before);
        let cuts = balance(&costs[skipped..], shares).ok_or_else(|| {
            let what = format!(
                "{} parts of the model for {} GPUs, expected at least one for each",
                costs.len() - skipped,
                shares.len()
            );
            GraphError::Placement(what)
        })?;
        Ok(cuts.into_iter().map(|cut| self.borders[skipped + cut - 1]).collect())
    }

    /// The cuts for a number of layers on each device.
    pub(super) fn given(
        &self,
        first: Option<usize>,
        layers: &[usize],
        devices: usize,
    ) -> Result<Vec<usize>, Error> {
        let first = first.unwrap_or(0);
        let all = self.plan.shape.layers;
        if layers.len() != devices
            || layers.iter().copied().fold(first, usize::saturating_add) != all
        {
            let what = format!(
                "{layers:?} layers on {devices} GPUs, expected a number for each, {} in all",
                all - first.min(all)
            );
            return Err(GraphError::Placement(what).into());
        }
        let cuts = layers[..devices - 1].iter().scan(first, |at, layers| {
            *at += layers;
            Some(*at)
        });
        Ok(cuts.collect())
    }
}

/// Bytes of the weights that only rows with results read.
fn selected_bytes(plan: &Plan) -> f64 {
    let steps = plan.steps.iter().filter(|step| plan.step_rows(step) == Rows::Selected);
    let mut weights: Vec<_> = steps.flat_map(|step| step.op.weights()).collect();
    weights.sort_unstable();
    weights.dedup();
    let weights = weights.into_iter().map(|id| plan.weight(id));
    let bytes = weights.filter_map(|weight| weight.dtype.bytes_of(weight.len()));
    bytes.sum::<usize>() as f64
}
