//! Ops on single rows or single elements: embedding, norms, functions, sums, copies, pooling.

use minijinja::{Value, context};
use pelton_graph::{Activation, Error, Gating, NormKind, Pooling, StridedCopy, Xielu};

use crate::{device::KernelSource, kernels::template, weights::Layout};

/// The kernel of such an op: its WGSL, and its workgroups per row.
#[derive(Debug)]
pub(crate) struct RowOp {
    pub(crate) label: &'static str,
    file: &'static str,
    parameters: Value,
    /// Workgroups along x; along y there is one for each row.
    pub(crate) groups: u32,
}

/// The shape of a norm of rows or heads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowNorm {
    /// The formula.
    pub(crate) kind: NormKind,
    /// Elements of a row or head.
    pub(crate) length: usize,
    /// Added under the root.
    pub(crate) eps: f32,
    /// Heads that the factors are for, 1 if all have the same, 0 without factors.
    pub(crate) weight_heads: usize,
    /// The same of the summands.
    pub(crate) bias_heads: usize,
}

/// The buffer of a gated product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GluOutput {
    /// The buffer of the gate.
    Gate,
    /// The buffer of the value.
    Up,
    /// Its own.
    Own,
}

/// The elements that a thread reads at once, 4 if all lengths allow it, and their type.
fn vector(lengths: &[usize]) -> (usize, &'static str) {
    match lengths.iter().all(|length| length.is_multiple_of(4)) {
        true => (4, "vec4<f32>"),
        false => (1, "f32"),
    }
}

/// Threads of an elementwise workgroup.
const THREADS: usize = 64;

impl RowOp {
    /// Embedding. Bindings: rows, recent tokens, row counts of the pass, x, and the planes of a
    /// shard of the table that begins with token `first`. `types` makes a token's id its remainder
    /// by that vocabulary.
    pub(crate) fn embed(
        layout: &Layout,
        k: usize,
        [first, rows]: [usize; 2],
        types: Option<usize>,
    ) -> Self {
        let units = layout.units(k);
        let recent = pelton_graph::RECENT;
        let parameters =
            context! { k, units, first, rows, recent, types, ..template::format(layout) };
        let groups = units.div_ceil(THREADS) as u32;
        Self { label: "embed", file: "embed.wgsl", parameters, groups }
    }

    /// The sum of a row and a row of a table. Bindings: rows, x, and the planes of a shard of the
    /// table that begins with row `first`; `row` is the expression of the row.
    pub(crate) fn add_table(
        layout: &Layout,
        k: usize,
        [first, rows]: [usize; 2],
        row: &str,
    ) -> Self {
        let units = layout.units(k);
        let parameters = context! { k, units, first, rows, row, ..template::format(layout) };
        let groups = units.div_ceil(THREADS) as u32;
        Self { label: "add_table", file: "add_table.wgsl", parameters, groups }
    }

    /// A norm of each of `heads` parts of a row. Bindings: x, y (without y in place), the factors
    /// and the summands that there are.
    pub(crate) fn norm(norm: &RowNorm, heads: usize, in_place: bool) -> Self {
        let &RowNorm { kind, length, eps, weight_heads, bias_heads } = norm;
        let (lanes, element) = vector(&[length]);
        let k = length / lanes;
        let threads = if k > 64 { 256 } else { 64 };
        let kind = match kind {
            NormKind::Rms => "rms",
            NormKind::Layer => "layer",
            NormKind::L2 => "l2",
        };
        let eps = template::float(eps);
        let parameters = context! {
            k, length, heads, kind, eps, weight_heads, bias_heads, in_place, threads, element
        };
        Self { label: "norm", file: "norm.wgsl", parameters, groups: heads as u32 }
    }

    /// A sum. Bindings: x, y; the sum is written to x.
    pub(crate) fn add(width: usize) -> Self {
        Self::elementwise("add", width, context! {})
    }

    /// A gated product of a row `[width]` and a gate `[gates]`, whose elements each hold for as
    /// many neighbours. Bindings: gate, up, and the product if it has a
    /// buffer of its own.
    pub(crate) fn glu(width: usize, gating: &Gating, gates: usize, to: GluOutput) -> Self {
        let to = match to {
            GluOutput::Gate => "gate",
            GluOutput::Up => "up",
            GluOutput::Own => "g",
        };
        let gating = template::gating(gating);
        if gates == width {
            return Self::elementwise("glu", width, context! { gating, gates => 0, to });
        }
        let (lanes, _) = vector(&[width / gates]);
        let neighbours = width / gates / lanes;
        let more = context! { gating, gates, neighbours, to };
        Self::elements("glu", width / lanes, lanes, more)
    }

    /// The adapters of rows. Bindings: rows, the adapters of slots, ids, weights.
    pub(crate) fn adapters(used: usize) -> Self {
        Self::elements("adapters", used, 1, context! {})
    }

    /// The selection of rows. Bindings: x, the indices of the rows, y.
    pub(crate) fn select(width: usize) -> Self {
        Self::elementwise("select", width, context! {})
    }

    /// A function of each element, in place. Bindings: x.
    pub(crate) fn activate(width: usize, activation: Activation) -> Self {
        let more = context! { activation => activation.name() };
        Self::elementwise("activate", width, more)
    }

    /// The product with a constant, in place. Bindings: x.
    pub(crate) fn scale(width: usize, factor: f32) -> Self {
        let more = context! { factor => template::float(factor) };
        Self::elementwise("scale", width, more)
    }

    /// The bound of elements by a hyperbolic tangent, in place. Bindings: x.
    pub(crate) fn softcap(width: usize, cap: f32) -> Self {
        let activation = Activation::Tanh.name();
        let more = context! { cap => template::float(cap), activation };
        Self::elementwise("softcap", width, more)
    }

    /// The bounds of elements, in place. Bindings: x.
    pub(crate) fn clamp(width: usize, low: f32, high: f32) -> Self {
        let bound =
            |bound: f32| if bound.is_finite() { template::float(bound) } else { String::new() };
        Self::elementwise("clamp", width, context! { low => bound(low), high => bound(high) })
    }

    /// The activation xIELU, in place. Bindings: x.
    pub(crate) fn xielu(width: usize, xielu: Xielu) -> Self {
        let Xielu { positive, negative, linear, bound } = xielu;
        let [positive, negative, linear, bound] =
            [positive, negative, linear, bound].map(template::float);
        Self::elementwise("xielu", width, context! { positive, negative, linear, bound })
    }

    /// A slice of the embeddings of rows without a token, in place of the row or added to it.
    /// Bindings: places, embeddings, x.
    pub(crate) fn inject(width: usize, [slice, slices]: [usize; 2], adds: bool) -> Self {
        Self::elementwise("inject", width, context! { slice, slices, adds })
    }

    /// The factor of a row's position, in place. Bindings: rows, x.
    pub(crate) fn temper(width: usize, beta: f32, interval: usize, offset: usize) -> Self {
        let more = context! { beta => template::float(beta), interval, offset };
        Self::elementwise("temper", width, more)
    }

    /// The results of `used` experts times their factors. Bindings: the results, ids, the
    /// factors of all experts.
    pub(crate) fn expert_scale(width: usize, used: usize) -> Self {
        let (lanes, _) = vector(&[width / used]);
        let of_one = width / used / lanes;
        Self::elements("expert_scale", width / lanes, lanes, context! { used, of_one })
    }

    /// The sum of the results of `used` experts, with `add` added to what is there. Bindings: their
    /// results, their weights, the sum.
    pub(crate) fn expert_sum(width: usize, used: usize, add: bool) -> Self {
        Self::elementwise("expert_sum", width, context! { used, add })
    }

    /// A strided copy from a row of `from_width` elements to one of `to_width`. Bindings: x, y.
    pub(crate) fn copy(copy: &StridedCopy, from_width: usize, to_width: usize) -> Self {
        let &StridedCopy { count, width, from, to } = copy;
        let mut all = [width, from_width, from.offset, from.stride, to_width, to.offset, to.stride];
        let (lanes, _) = vector(&all);
        all.iter_mut().for_each(|n| *n /= lanes);
        let [group, from_width, from_offset, from_stride, to_width, to_offset, to_stride] = all;
        let more = context! {
            group, from_width, from_offset, from_stride, to_width, to_offset, to_stride
        };
        Self::elements("copy", count * group, lanes, more)
    }

    /// The pooling of sequences. Bindings: rows, the indices of the selected rows, x, y.
    pub(crate) fn pool(width: usize, pooling: Pooling) -> Self {
        /// Elements of a workgroup.
        const COLUMNS: usize = 16;
        let (lanes, element) = vector(&[width]);
        let width = width / lanes;
        let pooling = match pooling {
            Pooling::Mean => "mean",
            Pooling::First => "first",
            Pooling::Last => "last",
        };
        let parameters = context! { width, element, pooling };
        let groups = width.div_ceil(COLUMNS) as u32;
        Self { label: "pool", file: "pooling.wgsl", parameters, groups }
    }

    fn elementwise(op: &'static str, width: usize, more: Value) -> Self {
        let (lanes, _) = vector(&[width]);
        Self::elements(op, width / lanes, lanes, more)
    }

    /// An elementwise kernel whose threads compute `lanes` elements.
    fn elements(op: &'static str, width: usize, lanes: usize, more: Value) -> Self {
        let groups = width.div_ceil(THREADS) as u32;
        let element = if lanes == 1 { "f32" } else { "vec4<f32>" };
        let parameters = context! { op, width, element, ..more };
        Self { label: op, file: "elementwise.wgsl", parameters, groups }
    }

    pub(crate) fn source(&self) -> Result<KernelSource, Error> {
        template::render(self.file, self.parameters.clone())
    }
}

/// Every activation, for the test that all kernels translate.
#[cfg(test)]
const ACTIVATIONS: [Activation; 10] = [
    Activation::Identity,
    Activation::Silu,
    Activation::GeluTanh,
    Activation::GeluErf,
    Activation::GeluQuick,
    Activation::Relu,
    Activation::ReluSquared,
    Activation::Sigmoid,
    Activation::Tanh,
    Activation::Softplus,
];

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    use pelton_graph::Strided;
    use pelton_quant::DType;
    let mut all: Vec<RowOp> =
        DType::ALL.iter().map(|&d| RowOp::embed(&Layout::of(d), 256, [9, 70], None)).collect();
    all.push(RowOp::embed(&Layout::of(DType::F32), 256, [9, 70], Some(1000)));
    for (dtype, row) in [(DType::F16, "rows[id.y].y"), (DType::Q6_K, "3u")] {
        all.push(RowOp::add_table(&Layout::of(dtype), 256, [2, 70], row));
    }
    for kind in [NormKind::Rms, NormKind::Layer, NormKind::L2] {
        for (length, heads, weight_heads, bias_heads) in
            [(50, 1, 1, 0), (128, 9, 9, 1), (2048, 1, 0, 0), (4096, 1, 1, 1)]
        {
            let norm = RowNorm { kind, length, eps: 1e-6, weight_heads, bias_heads };
            all.extend([false, true].map(|in_place| RowOp::norm(&norm, heads, in_place)));
        }
    }
    for width in [50, 2048] {
        all.extend([RowOp::add, RowOp::select, RowOp::adapters].map(|op| op(width)));
        for activation in ACTIVATIONS {
            all.push(RowOp::activate(width, activation));
            let gating = Gating::Product(activation);
            all.push(RowOp::glu(width, &gating, width, GluOutput::Own));
            all.push(RowOp::glu(width, &gating, 1, GluOutput::Up));
            all.push(RowOp::glu(width, &gating, 2, GluOutput::Own));
        }
        let clamped = Gating::Clamped { alpha: 1.702, limit: 7.0 };
        all.push(RowOp::glu(width, &clamped, width, GluOutput::Gate));
        all.push(RowOp::scale(width, 0.125));
        all.push(RowOp::softcap(width, 30.0));
        all.push(RowOp::xielu(
            width,
            Xielu { positive: 0.8, negative: 0.3, linear: 0.5, bound: -1e-6 },
        ));
        all.push(RowOp::clamp(width, -0.5, 3.0));
        all.push(RowOp::clamp(width, f32::NEG_INFINITY, 3.0));
        all.extend([false, true].map(|adds| RowOp::inject(width, [1, 3], adds)));
        all.push(RowOp::temper(width, 0.1, 8192, 1));
        all.push(RowOp::expert_scale(3 * width, 3));
        all.push(RowOp::expert_sum(width, 3, false));
        all.push(RowOp::expert_sum(width, 3, true));
        all.extend([Pooling::Mean, Pooling::First, Pooling::Last].map(|p| RowOp::pool(width, p)));
        let place = |offset, stride| Strided { offset, stride };
        let copy = StridedCopy { count: 5, width, from: place(0, width), to: place(4, 3 * width) };
        all.push(RowOp::copy(&copy, 5 * width, 16 * width));
    }
    all.iter().map(|s| (format!("{} {}", s.label, s.parameters), s.source().unwrap())).collect()
}
