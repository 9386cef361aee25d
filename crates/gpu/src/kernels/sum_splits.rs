//! The sums over the K splits of matrix products.

use minijinja::{Value, context};
use pelton_graph::{Activation, Error, Gating};

use crate::{device::KernelSource, kernels::template};

/// Threads of a workgroup.
const THREADS: usize = 64;

/// One of the outputs of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// Its elements in a row.
    pub(crate) rows: usize,
    /// Whether a bias is added.
    pub(crate) bias: bool,
}

/// The sum over K splits of partial sums `[splits, slab_rows, outputs]` f32.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SumSplits {
    /// K splits.
    pub(crate) splits: usize,
    /// Rows of the partial sums of one split.
    pub(crate) slab_rows: usize,
    /// The outputs, which follow each other in a row of partial sums.
    pub(crate) outputs: Vec<Output>,
    /// Whether sums are added to what is in y.
    pub(crate) add: bool,
    /// The gated product, if it is the result: of two outputs of one length, gate and up.
    pub(crate) glu: Option<Gating>,
    /// The function of the sum of a single output.
    pub(crate) activation: Option<Activation>,
    /// Whether a single result is written in f16, for products on matrix cores.
    pub(crate) halves: bool,
}

impl SumSplits {
    /// Elements of a thread.
    fn lanes(&self) -> usize {
        match self.outputs.iter().all(|output| output.rows.is_multiple_of(4)) {
            true => 4,
            false => 1,
        }
    }

    /// Elements of a row of partial sums.
    fn total(&self) -> usize {
        self.outputs.iter().map(|output| output.rows).sum()
    }

    /// Elements of a row that threads compute.
    fn width(&self) -> usize {
        self.total() / if self.glu.is_some() { 2 } else { 1 }
    }

    /// Workgroups of a row.
    pub(crate) fn groups(&self) -> u32 {
        (self.width() / self.lanes()).div_ceil(THREADS) as u32
    }

    fn written(&self) -> &[Output] {
        &self.outputs[..if self.glu.is_some() { 1 } else { self.outputs.len() }]
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self) -> Result<KernelSource, Error> {
        let lanes = self.lanes();
        let mut first = 0;
        let parts: Vec<Value> = self
            .written()
            .iter()
            .map(|output| {
                let (start, rows) = (first, output.rows / lanes);
                first += rows;
                context! { first => start, rows, bias => output.bias }
            })
            .collect();
        template::render(
            "sum_splits.wgsl",
            context! {
                element => if lanes == 4 { "vec4<f32>" } else { "f32" },
                total => self.total() / lanes,
                width => self.width() / lanes,
                splits => self.splits,
                slab_rows => self.slab_rows,
                parts,
                add => self.add,
                glu => self.glu.is_some(),
                gating => self.glu.as_ref().map(template::gating),
                activation => self.activation.map(Activation::name),
                halves => self.halves,
            },
        )
    }
}

#[cfg(test)]
fn cases() -> Vec<SumSplits> {
    let output = |rows, bias| Output { rows, bias };
    let silu = Some(Gating::Product(Activation::Silu));
    let plain = |outputs| SumSplits {
        splits: 3,
        slab_rows: 6,
        outputs,
        add: false,
        glu: None,
        activation: None,
        halves: false,
    };
    let gelu = Some(Activation::GeluErf);
    vec![
        SumSplits { activation: gelu, ..plain(vec![output(50, true)]) },
        SumSplits { activation: gelu, halves: true, ..plain(vec![output(64, true)]) },
        plain(vec![output(50, false)]),
        SumSplits { add: true, ..plain(vec![output(52, true)]) },
        plain(vec![output(64, true), output(12, false), output(20, true)]),
        SumSplits { splits: 1, ..plain(vec![output(7, false), output(300, true)]) },
        SumSplits { glu: silu, ..plain(vec![output(66, false); 2]) },
        SumSplits { glu: silu, halves: true, splits: 1, ..plain(vec![output(64, false); 2]) },
    ]
}

/// Kernels for the test of translations.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    cases().iter().map(|sum| (format!("{sum:?}"), sum.source().unwrap())).collect()
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::testing::{device, normals};

    /// The error function by its series.
    fn erf(x: f64) -> f64 {
        let mut power = x;
        let terms = (0..200).map(|n| {
            let term = power / f64::from(2 * n + 1);
            power *= -x * x / f64::from(n + 1);
            term
        });
        terms.sum::<f64>() * std::f64::consts::FRAC_2_SQRT_PI
    }

    /// Compares the outputs with sums in f64.
    #[test]
    fn outputs_are_sums_over_splits() {
        let Some(device) = device() else { return };
        const ROWS: usize = 5;
        for sum in cases() {
            let total = sum.total();
            let partial = normals(1, sum.splits * sum.slab_rows * total);
            let partial_buffer = device.with(&partial);
            let biases: Vec<Vec<f32>> =
                sum.outputs.iter().zip(2..).map(|(o, seed)| normals(seed, o.rows)).collect();
            let before: Vec<Vec<f32>> =
                sum.outputs.iter().zip(9..).map(|(o, seed)| normals(seed, o.rows * ROWS)).collect();
            let bias_buffers: Vec<_> = biases.iter().map(|bias| device.with(bias)).collect();
            let y_buffers: Vec<_> = before
                .iter()
                .map(|y| match sum.halves {
                    true => device.with(&vec![f16::NAN; y.len()]),
                    false => device.with(y),
                })
                .collect();
            let mut buffers = vec![&partial_buffer];
            for (i, output) in sum.written().iter().enumerate() {
                buffers.push(&y_buffers[i]);
                buffers.extend(output.bias.then_some(&bias_buffers[i]));
            }
            let kernel = device.kernel("sum", &sum.source().unwrap()).unwrap();
            device.run(&kernel, &buffers, [sum.groups(), ROWS as u32, 1]);
            let at = |r: usize, n: usize| -> f64 {
                let slabs = (0..sum.splits).map(|s| (s * sum.slab_rows + r) * total + n);
                slabs.map(|at| f64::from(partial[at])).sum()
            };
            let mut first = 0;
            for (i, output) in sum.written().iter().enumerate() {
                let got: Vec<f32> = match sum.halves {
                    true => {
                        device.content::<f16>(&y_buffers[i]).iter().map(|v| v.to_f32()).collect()
                    }
                    false => device.content(&y_buffers[i]),
                };
                for r in 0..ROWS {
                    let biases = output.bias.then_some(&biases[i]);
                    for n in 0..output.rows {
                        let mut expected = at(r, first + n);
                        if sum.glu.is_some() {
                            expected *= at(r, output.rows + n) / (1.0 + (-expected).exp());
                        }
                        let place = r * output.rows + n;
                        expected += if sum.add { f64::from(before[i][place]) } else { 0.0 };
                        expected += biases.map_or(0.0, |bias| f64::from(bias[n]));
                        if sum.activation == Some(Activation::GeluErf) {
                            expected *= 0.5 * (1.0 + erf(expected / 2f64.sqrt()));
                        }
                        let bound = if sum.halves { expected.abs() / 1000.0 + 1e-6 } else { 1e-5 };
                        let difference = (f64::from(got[place]) - expected).abs();
                        assert!(difference < bound, "{sum:?} {r} {n}: {expected}");
                    }
                }
                first += output.rows;
            }
        }
    }
}
