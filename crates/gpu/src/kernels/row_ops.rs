//! Ops on single rows or single elements: embedding, norm, sums, products, selection.

use minijinja::{Value, context};
use pelton_graph::Error;

use crate::{device::Access, kernels::template, weights::Layout};

/// The kernel of such an op: its WGSL, its bindings, and its workgroups per row.
#[derive(Debug)]
pub(crate) struct RowOp {
    pub(crate) label: &'static str,
    file: &'static str,
    parameters: Value,
    bindings: Vec<Access>,
    /// Workgroups along x; along y there is one for each row.
    pub(crate) groups: u32,
}

/// Threads of an elementwise workgroup.
const THREADS: usize = 64;

impl RowOp {
    /// Embedding. Bindings: rows, recent tokens, row counts of the pass, x, and the planes of a
    /// shard of the table that begins with token `first`.
    pub(crate) fn embed(layout: &Layout, k: usize, first: usize, rows: usize) -> Self {
        let units = layout.units(k);
        let mut bindings = vec![Access::Read, Access::ReadWrite, Access::Read, Access::ReadWrite];
        bindings.extend(vec![Access::Read; layout.bindings()]);
        let recent = pelton_graph::RECENT;
        let parameters = context! { k, units, first, rows, recent, ..template::format(layout) };
        let groups = units.div_ceil(THREADS) as u32;
        Self { label: "embed", file: "embed.wgsl", parameters, bindings, groups }
    }

    /// A norm of each of `heads` parts of a row. Bindings: x, y (without y in place), weight.
    pub(crate) fn norm(k: usize, heads: usize, eps: f32, in_place: bool) -> Self {
        let threads = if k > 256 { 256 } else { 64 };
        let eps = template::float(eps);
        let bindings = match in_place {
            true => vec![Access::ReadWrite, Access::Read],
            false => vec![Access::Read, Access::ReadWrite, Access::Read],
        };
        let parameters = context! { k, heads, eps, in_place, threads };
        Self { label: "norm", file: "norm.wgsl", parameters, bindings, groups: heads as u32 }
    }

    /// A sum. Bindings: x, y; the sum is written to x.
    pub(crate) fn add(width: usize) -> Self {
        Self::elementwise("add", width, vec![Access::ReadWrite, Access::Read])
    }

    /// A gated product. Bindings: gate, up, the product.
    pub(crate) fn glu(width: usize) -> Self {
        Self::elementwise("glu", width, vec![Access::Read, Access::Read, Access::ReadWrite])
    }

    /// A gated product. Bindings: gate, up; the product is written to gate.
    pub(crate) fn glu_in_place(width: usize) -> Self {
        Self::elementwise("glu_in_place", width, vec![Access::ReadWrite, Access::Read])
    }

    /// The selection of rows. Bindings: x, the indices of the rows, y.
    pub(crate) fn select(width: usize) -> Self {
        Self::elementwise("select", width, vec![Access::Read, Access::Read, Access::ReadWrite])
    }

    /// The sum over K splits. Bindings: partial sums `[splits, slab_rows, n]`, y, and the bias if
    /// there is one.
    pub(crate) fn sum_splits(
        n: usize,
        [splits, slab_rows]: [usize; 2],
        add: bool,
        bias: bool,
    ) -> Self {
        let mut bindings = vec![Access::Read, Access::ReadWrite];
        bindings.extend(bias.then_some(Access::Read));
        let groups = n.div_ceil(THREADS) as u32;
        let parameters = context! { n, splits, slab_rows, add, bias };
        Self { label: "sum_splits", file: "sum_splits.wgsl", parameters, bindings, groups }
    }

    fn elementwise(op: &'static str, width: usize, bindings: Vec<Access>) -> Self {
        let groups = width.div_ceil(THREADS) as u32;
        let parameters = context! { op, width };
        Self { label: op, file: "elementwise.wgsl", parameters, bindings, groups }
    }

    pub(crate) fn source(&self) -> Result<String, Error> {
        template::render(self.file, self.parameters.clone())
    }

    pub(crate) fn bindings(&self) -> &[Access] {
        &self.bindings
    }
}

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, String)> {
    use pelton_quant::DType;
    let mut all: Vec<RowOp> =
        DType::ALL.iter().map(|&d| RowOp::embed(&Layout::of(d), 256, 9, 70)).collect();
    for in_place in [false, true] {
        let shapes = [(50, 1), (128, 9), (2048, 1)];
        all.extend(shapes.map(|(k, heads)| RowOp::norm(k, heads, 1e-6, in_place)));
    }
    for (add, bias) in [(false, true), (true, false)] {
        all.push(RowOp::sum_splits(50, [3, 64], add, bias));
    }
    for width in [50, 2048] {
        let ops = [RowOp::add, RowOp::glu, RowOp::glu_in_place, RowOp::select];
        all.extend(ops.map(|op| op(width)));
    }
    all.iter().map(|s| (format!("{} {}", s.label, s.parameters), s.source().unwrap())).collect()
}
