//! The time of a pass, from what it reads and multiplies and the rates of a device.
//!
//! ```text
//! decoding pass:  W(n) / read  +  n · K(d) / cache  +  f · P / few  +  (n - 1 - f) · P / multiply  +  steps · step
//! prompt pass:    W(m) / read  +  m · K(m/2) / cache  +  (m - 1) · B / multiply  +  steps · step
//! ```
//!
//! `f` are the rows after the first, up to [`FEW`]. `W(n)` are the bytes of weights that `n` rows read, `K(d)` those of keys and values that a row at depth `d`
//! reads. `P` are two operations for each product of a row, and `B` the same without the output matrix. The
//! products of the first row are hidden by the reading of the weights.

use pelton::{KvType, graph::Plan};

use super::super::work;

/// Rows of a decoding pass whose products are partly hidden by the reading of the weights.
pub(super) const FEW: usize = 8;

/// The rates of a device in a second, and the time that a step takes at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    /// Bytes of weights.
    pub(super) read: f64,
    /// Bytes of keys and values.
    pub(super) cache: f64,
    /// Operations, two for each product: those of up to [`FEW`] rows of decoding, and of further rows and prompts.
    pub(super) few: f64,
    pub(super) multiply: f64,
    /// Seconds.
    pub(super) step: f64,
}

/// The work of passes over a plan.
pub(super) struct Work<'a> {
    plan: &'a Plan,
    kv: KvType,
    /// Operations of a row, and of one whose results are not wanted.
    all: f64,
    body: f64,
}

impl<'a> Work<'a> {
    pub(super) fn new(plan: &'a Plan, kv: KvType) -> Self {
        let of = |selected: bool| -> f64 {
            let steps = plan.steps.iter().filter(|s| selected || !work::is_selected(plan, s));
            steps.map(|step| 2.0 * work::products(plan, step)).sum()
        };
        Self { plan, kv, all: of(true), body: of(false) }
    }

    /// Bytes of weights that rows read.
    pub(super) fn weights(&self, rows: usize) -> f64 {
        self.plan.steps.iter().map(|step| work::weights_read(self.plan, step, rows, 1.0)).sum()
    }

    /// Bytes of keys and values that a row at a depth reads.
    pub(super) fn cache(&self, depth: usize) -> f64 {
        let read = |step| work::cache_read(self.plan, step, depth + 1, self.kv);
        self.plan.steps.iter().map(read).sum()
    }

    /// Operations of a row of a prompt.
    pub(super) fn of_prompt_row(&self) -> f64 {
        self.body
    }

    /// Seconds of a pass in which sequences at a depth get a token each.
    pub(super) fn decode(&self, rates: &Rates, rows: usize, depth: usize) -> f64 {
        let few = (rows.min(FEW) - 1) as f64;
        let products = few / rates.few + (rows as f64 - 1.0 - few) / rates.multiply;
        self.pass(rates, rows, depth, products * self.all)
    }

    /// Seconds of a pass over a prompt.
    pub(super) fn prompt(&self, rates: &Rates, tokens: usize) -> f64 {
        let products = (tokens as f64 - 1.0) / rates.multiply;
        self.pass(rates, tokens, tokens / 2, products * self.body)
    }

    /// `products` are the seconds of the products of all rows but the first.
    fn pass(&self, rates: &Rates, rows: usize, depth: usize, products: f64) -> f64 {
        self.weights(rows) / rates.read
            + rows as f64 * self.cache(depth) / rates.cache
            + products
            + self.plan.steps.len() as f64 * rates.step
    }
}
