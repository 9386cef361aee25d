//! The ops that take a row at a time, or a number at a time.

use minijinja::{Value, context};
use pelton_graph::Error;

use crate::{device::Access, repack::Layout, source};

/// A kernel of one of these ops: its WGSL, its bindings, and its workgroups for a row.
#[derive(Debug)]
pub(crate) struct Simple {
    pub(crate) label: &'static str,
    file: &'static str,
    parameters: Value,
    bindings: Vec<Access>,
    /// Workgroups along x; along y there is one for each row.
    pub(crate) groups: u32,
}

/// Threads of an elementwise workgroup.
const THREADS: usize = 64;

impl Simple {
    /// Bindings: rows, x, the planes of a part of the table that begins with token `first`.
    pub(crate) fn embed(layout: &Layout, k: usize, first: usize, rows: usize) -> Self {
        let units = layout.units(k);
        let mut bindings = vec![Access::Read, Access::ReadWrite];
        bindings.extend(vec![Access::Read; layout.planes(1, k).len()]);
        let parameters = context! { k, units, first, rows, ..source::format(layout) };
        let groups = units.div_ceil(THREADS) as u32;
        Self { label: "embed", file: "embed.wgsl", parameters, bindings, groups }
    }

    /// Bindings: x, y (or only x, in place), weight.
    pub(crate) fn norm(k: usize, heads: usize, eps: f32, in_place: bool) -> Self {
        let threads = if k > 256 { 256 } else { 64 };
        let eps = source::float(eps);
        let bindings = match in_place {
            true => vec![Access::ReadWrite, Access::Read],
            false => vec![Access::Read, Access::ReadWrite, Access::Read],
        };
        let parameters = context! { k, heads, eps, in_place, threads };
        Self { label: "norm", file: "norm.wgsl", parameters, bindings, groups: heads as u32 }
    }

    /// Bindings: x, y; the sum goes to x.
    pub(crate) fn add(width: usize) -> Self {
        Self::elementwise("add", width, vec![Access::ReadWrite, Access::Read])
    }

    /// Bindings: gate, up, the product.
    pub(crate) fn glu(width: usize) -> Self {
        Self::elementwise("glu", width, vec![Access::Read, Access::Read, Access::ReadWrite])
    }

    /// Bindings: gate, up; the product goes to gate.
    pub(crate) fn glu_in_place(width: usize) -> Self {
        Self::elementwise("glu_in_place", width, vec![Access::ReadWrite, Access::Read])
    }

    /// Bindings: x, the numbers of the rows, y.
    pub(crate) fn select(width: usize) -> Self {
        Self::elementwise("select", width, vec![Access::Read, Access::Read, Access::ReadWrite])
    }

    fn elementwise(op: &'static str, width: usize, bindings: Vec<Access>) -> Self {
        let groups = width.div_ceil(THREADS) as u32;
        let parameters = context! { op, width };
        Self { label: op, file: "elementwise.wgsl", parameters, bindings, groups }
    }

    pub(crate) fn source(&self) -> Result<String, Error> {
        source::render(self.file, self.parameters.clone())
    }

    pub(crate) fn bindings(&self) -> &[Access] {
        &self.bindings
    }
}

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, String)> {
    use pelton_quant::DType;
    let mut all: Vec<Simple> =
        DType::ALL.iter().map(|&d| Simple::embed(&Layout::of(d), 256, 9, 70)).collect();
    for in_place in [false, true] {
        let shapes = [(50, 1), (128, 9), (2048, 1)];
        all.extend(shapes.map(|(k, heads)| Simple::norm(k, heads, 1e-6, in_place)));
    }
    for width in [50, 2048] {
        let ops = [Simple::add, Simple::glu, Simple::glu_in_place, Simple::select];
        all.extend(ops.map(|op| op(width)));
    }
    all.iter().map(|s| (format!("{} {}", s.label, s.parameters), s.source().unwrap())).collect()
}
