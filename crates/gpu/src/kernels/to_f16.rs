//! Activations in f16, the operand of matrix products on matrix cores.

use minijinja::context;
use pelton_graph::{Error, Norm, NormKind};

use crate::{
    device::{Capabilities, Device, Kernel, KernelSource},
    kernels::template,
};

/// Rows of f16 activations are padded with zeros to a multiple of this: the greatest K step of a
/// tile.
const DEPTH: usize = 64;

/// Elements of a padded row of `k` elements.
pub(crate) const fn padded(k: usize) -> usize {
    k.next_multiple_of(DEPTH)
}

/// A conversion of rows `[rows, k]` to f16 `[rows, padded(k)]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ToF16 {
    /// Elements of a row.
    pub(crate) k: usize,
    /// Such rows in a row of the pass: one for each head or chosen expert.
    pub(crate) per_row: usize,
    /// A norm before the conversion.
    pub(crate) norm: Option<HalvedNorm>,
    /// The partial sums that x is completed with before, of a product that adds to x.
    pub(crate) partial: Option<Partial>,
}

/// A norm of rows before their conversion, which has factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HalvedNorm {
    /// Whether the mean is subtracted first.
    pub(crate) centred: bool,
    /// Added under the root.
    pub(crate) eps: f32,
    /// Whether it has summands.
    pub(crate) bias: bool,
}

impl HalvedNorm {
    /// The norm of a plan.
    pub(crate) fn of(norm: &Norm) -> Self {
        let centred = norm.kind == NormKind::Layer;
        Self { centred, eps: norm.eps, bias: norm.bias.is_some() }
    }
}

/// Partial sums `[splits, slab_rows, outputs]` f32 of a product with K splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partial {
    /// K splits.
    pub(crate) splits: usize,
    /// Rows of one split.
    pub(crate) slab_rows: usize,
    /// Whether the product has a bias.
    pub(crate) bias: bool,
}

impl ToF16 {
    /// Threads of a workgroup: four elements of a long row for each, where the GPU allows as many.
    fn threads(&self, capabilities: &Capabilities) -> usize {
        let wanted = if self.k >= 4096 { 1024 } else { 256 };
        wanted.min(capabilities.workgroup_threads as usize)
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self, capabilities: &Capabilities) -> Result<KernelSource, Error> {
        template::render(
            "to_f16.wgsl",
            context! {
                k => self.k,
                per_row => self.per_row,
                padded => padded(self.k),
                threads => self.threads(capabilities),
                splits => self.partial.map_or(0, |partial| partial.splits),
                slab_rows => self.partial.map_or(0, |partial| partial.slab_rows),
                bias => self.partial.is_some_and(|partial| partial.bias),
                norm => self.norm.is_some(),
                centred => self.norm.is_some_and(|norm| norm.centred),
                norm_bias => self.norm.is_some_and(|norm| norm.bias),
                eps => self.norm.map_or_else(String::new, |norm| template::float(norm.eps)),
            },
        )
    }

    pub(crate) fn kernel(&self, device: &Device) -> Result<Kernel, Error> {
        device.kernel(&format!("to_f16 {}", self.k), &self.source(&device.capabilities)?)
    }
}

#[cfg(test)]
const PARTIALS: [Option<Partial>; 3] = [
    None,
    Some(Partial { splits: 1, slab_rows: 6, bias: false }),
    Some(Partial { splits: 3, slab_rows: 6, bias: true }),
];

#[cfg(test)]
const NORMS: [Option<HalvedNorm>; 4] = [
    None,
    Some(HalvedNorm { centred: false, eps: 1e-5, bias: false }),
    Some(HalvedNorm { centred: true, eps: 1e-5, bias: false }),
    Some(HalvedNorm { centred: true, eps: 1e-5, bias: true }),
];

/// Kernels for the test of translations.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    let mut all = Vec::new();
    for k in [50, 256, 4096] {
        for norm in NORMS {
            for partial in PARTIALS {
                let prepare = ToF16 { k, per_row: 1, norm, partial };
                let source = prepare.source(&crate::testing::capabilities(32)).unwrap();
                all.push((format!("{prepare:?}"), source));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::testing::{device, normals};

    fn expected(p: &ToF16, x: &[f32], weight: &[f32], bias: &[f32]) -> Vec<f64> {
        let mut x: Vec<f64> = x.iter().map(|&v| f64::from(v)).collect();
        let Some(norm) = p.norm else { return x };
        if norm.centred {
            let mean = x.iter().sum::<f64>() / p.k as f64;
            x.iter_mut().for_each(|v| *v -= mean);
        }
        let squares: f64 = x.iter().map(|v| v * v).sum();
        let factor = 1.0 / (squares / p.k as f64 + f64::from(norm.eps)).sqrt();
        let summand = |bias: &f32| if norm.bias { f64::from(*bias) } else { 0.0 };
        let all = x.iter().zip(weight).zip(bias);
        all.map(|((v, w), bias)| v * factor * f64::from(*w) + summand(bias)).collect()
    }

    #[test]
    fn rows_are_rounded_and_padded() {
        let Some(device) = device() else { return };
        const ROWS: usize = 5;
        for k in [1, 50, 64, 2052, 4100] {
            let cases = NORMS
                .into_iter()
                .flat_map(|norm| PARTIALS.map(|partial| ToF16 { k, per_row: 1, norm, partial }));
            for p in cases {
                let (mut x, weight) = (normals(1, ROWS * k), normals(2, k));
                let summands = normals(5, k);
                // NaN, so that an element that is not written fails the comparison
                let a = device.with(&vec![f16::NAN; ROWS * padded(k)]);
                let (x_buffer, weight_buffer) = (device.with(&x), device.with(&weight));
                let summands_buffer = device.with(&summands);
                let mut buffers = vec![&x_buffer, &a];
                buffers.extend(p.norm.map(|_| &weight_buffer));
                buffers.extend(p.norm.filter(|norm| norm.bias).map(|_| &summands_buffer));
                let slab = 6 * k;
                let (partial, bias) = (normals(3, 3 * slab), normals(4, k));
                let (partial_buffer, bias_buffer) = (device.with(&partial), device.with(&bias));
                if let Some(Partial { splits, bias: added, .. }) = p.partial {
                    buffers.push(&partial_buffer);
                    buffers.extend(added.then_some(&bias_buffer));
                    for (i, x) in x.iter_mut().enumerate() {
                        *x += (0..splits).map(|s| partial[s * slab + i]).sum::<f32>();
                        *x += if added { bias[i % k] } else { 0.0 };
                    }
                }
                device.run(&p.kernel(&device).unwrap(), &buffers, [ROWS as u32, 1, 1]);
                let completed: Vec<f32> = device.content(&x_buffer);
                assert!(completed.iter().zip(&x).all(|(got, e)| (got - e).abs() < 1e-5), "{p:?}");
                let got: Vec<f16> = device.content(&a);
                for (got, x) in got.chunks(padded(k)).zip(completed.chunks(k)) {
                    for (i, (got, e)) in
                        got.iter().zip(expected(&p, x, &weight, &summands)).enumerate()
                    {
                        let difference = (f64::from(*got) - e).abs();
                        // half a step of 11 bits, or of subnormal values; a sum of f32 near zero
                        // keeps the rounding of its summands
                        let bias = p.norm.filter(|norm| norm.bias).map_or(0.0, |_| summands[i]);
                        let rounding = 1e-6 * f64::from(bias.abs());
                        let tolerance = e.abs() / 2000.0 + 6e-8 + rounding;
                        assert!(difference < tolerance, "{p:?} {i}: {got} for {e}");
                    }
                    assert!(got[k..].iter().all(|v| v.to_bits() == 0), "{p:?} is padded");
                }
            }
        }
    }

    #[test]
    fn large_values_are_clamped_and_nan_is_kept() {
        let Some(device) = device() else { return };
        let p = ToF16 { k: 5, per_row: 1, norm: None, partial: None };
        let a = device.with(&vec![f16::ZERO; padded(5)]);
        let x = device.with(&[1e6f32, -1e30, 65504.0, 2.0, f32::NAN]);
        device.run(&p.kernel(&device).unwrap(), &[&x, &a], [1, 1, 1]);
        let got: Vec<f16> = device.content(&a);
        assert_eq!(got[..4], [f16::MAX, f16::MIN, f16::MAX, f16::from_f32(2.0)]);
        assert!(got[4].is_nan());
    }
}
