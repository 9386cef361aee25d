//! Activations in 16 bits, as products on matrix cores take them.

use minijinja::context;
use pelton_graph::Error;

use crate::{
    device::{Access, Device, Kernel},
    source,
};

/// Rows of prepared activations are padded with zeros to a multiple of this: the depth of the
/// deepest tile of a product.
const DEPTH: usize = 64;

/// Numbers in a prepared row of `k`: two bytes each.
pub(crate) const fn padded(k: usize) -> usize {
    k.next_multiple_of(DEPTH)
}

/// What is made of the inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Before {
    /// Nothing.
    Copy,
    /// The norm with this `eps`.
    Norm(f32),
    /// `silu(gate) · up`.
    Glu,
}

/// A preparation of `k` numbers a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prepare {
    /// Numbers in a row.
    pub(crate) k: usize,
    /// What is made of them.
    pub(crate) before: Before,
    /// Where among the numbers of a pass the rows to take are listed, if not all are taken.
    pub(crate) selected_at: Option<usize>,
}

impl Prepare {
    /// The bindings: x (or the gate), the prepared rows, the norm's weight or what the gate lets
    /// through, and with selected rows the numbers of the pass. There is a workgroup for each row.
    pub(crate) fn bindings(&self) -> Vec<Access> {
        let more =
            usize::from(self.before != Before::Copy) + usize::from(self.selected_at.is_some());
        let mut all = vec![Access::Read, Access::ReadWrite];
        all.extend(std::iter::repeat_n(Access::Read, more));
        all
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self) -> Result<String, Error> {
        let eps = match self.before {
            Before::Norm(eps) => source::float(eps),
            Before::Copy | Before::Glu => String::new(),
        };
        source::render(
            "prepare.wgsl",
            context! {
                k => self.k,
                padded => padded(self.k),
                threads => 256,
                norm => matches!(self.before, Before::Norm(_)),
                glu => self.before == Before::Glu,
                selected => self.selected_at.is_some(),
                selected_at => self.selected_at.unwrap_or_default(),
                eps,
            },
        )
    }

    pub(crate) fn kernel(&self, device: &Device) -> Result<Kernel, Error> {
        device.kernel(&format!("prepare {}", self.k), &self.source()?, &self.bindings())
    }
}

/// Kernels for the test of translations.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for k in [50, 256] {
        for before in [Before::Copy, Before::Norm(1e-5), Before::Glu] {
            for selected_at in [None, Some(2)] {
                let prepare = Prepare { k, before, selected_at };
                all.push((format!("{prepare:?}"), prepare.source().unwrap()));
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

    fn expected(p: &Prepare, x: &[f32], second: &[f32], row: usize) -> Vec<f64> {
        let x: Vec<f64> = x[row * p.k..][..p.k].iter().map(|&v| f64::from(v)).collect();
        match p.before {
            Before::Copy => x,
            Before::Norm(eps) => {
                let squares: f64 = x.iter().map(|v| v * v).sum();
                let factor = 1.0 / (squares / p.k as f64 + f64::from(eps)).sqrt();
                x.iter().zip(second).map(|(v, w)| v * factor * f64::from(*w)).collect()
            }
            Before::Glu => x
                .iter()
                .zip(&second[row * p.k..])
                .map(|(gate, up)| gate / (1.0 + (-gate).exp()) * f64::from(*up))
                .collect(),
        }
    }

    #[test]
    fn rows_are_rounded_and_padded() {
        let Some(device) = device() else { return };
        const ROWS: usize = 5;
        for k in [1, 50, 64, 2052] {
            for before in [Before::Copy, Before::Norm(1e-5), Before::Glu] {
                for selected_at in [None, Some(2)] {
                    let p = Prepare { k, before, selected_at };
                    let x = normals(1, ROWS * k);
                    let second = normals(2, ROWS * k);
                    let rows: Vec<usize> =
                        if selected_at.is_some() { vec![4, 1, 1] } else { (0..ROWS).collect() };
                    let mut pass = vec![99u32, 99];
                    pass.extend(rows.iter().map(|&row| row as u32));
                    // poison: what is not written shows
                    let a = device.with(&vec![f16::NAN; rows.len() * padded(k)]);
                    let (x_buffer, pass) = (device.with(&x), device.with(&pass));
                    let second_buffer = device.with(&second);
                    let mut buffers = vec![&x_buffer, &a];
                    if before != Before::Copy {
                        buffers.push(&second_buffer);
                    }
                    if selected_at.is_some() {
                        buffers.push(&pass);
                    }
                    let kernel = p.kernel(&device).unwrap();
                    device.run(&kernel, &buffers, [rows.len() as u32, 1, 1]);
                    let got: Vec<f16> = device.content(&a);
                    for (got, &row) in got.chunks(padded(k)).zip(&rows) {
                        for (i, (got, e)) in
                            got.iter().zip(expected(&p, &x, &second, row)).enumerate()
                        {
                            let difference = (f64::from(*got) - e).abs();
                            // half a step of 11 bits, or of the smallest numbers
                            let tolerance = e.abs() / 2000.0 + 6e-8;
                            assert!(difference < tolerance, "{p:?} row {row} {i}: {got} for {e}");
                        }
                        assert!(got[k..].iter().all(|v| v.to_bits() == 0), "{p:?} is padded");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_too_large_stays_finite() {
        let Some(device) = device() else { return };
        let p = Prepare { k: 4, before: Before::Copy, selected_at: None };
        let a = device.with(&vec![f16::NAN; padded(4)]);
        let x = device.with(&[1e6f32, -1e30, 65504.0, 2.0]);
        device.run(&p.kernel(&device).unwrap(), &[&x, &a], [1, 1, 1]);
        let got: Vec<f16> = device.content(&a);
        assert_eq!(got[..4], [f16::MAX, f16::MIN, f16::MAX, f16::from_f32(2.0)]);
    }
}
