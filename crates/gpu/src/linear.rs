//! Matrix products: which variant of `linear.wgsl` serves a shape.

use minijinja::{Value, context};
use pelton_graph::Error;

use crate::{
    device::{Abilities, Access},
    repack::Layout,
    source,
};

/// What a product does, as far as its kernel depends on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Linear {
    /// How the weights lie.
    pub(crate) layout: Layout,
    /// Weights in a row.
    pub(crate) k: usize,
    /// Rows of this part of the matrix: outputs.
    pub(crate) rows: usize,
    /// Outputs of the parts before this one.
    pub(crate) offset: usize,
    /// Outputs of all parts.
    pub(crate) stride: usize,
    /// Rows of activations that share one reading of the weights.
    pub(crate) batch: usize,
    /// The `eps` of a norm before the product.
    pub(crate) norm: Option<f32>,
    /// Whether a bias is added.
    pub(crate) bias: bool,
    /// Whether the result is added to what is there.
    pub(crate) add: bool,
    /// Whether there are two matrices, a gate and what it lets through.
    pub(crate) glu: bool,
    /// The second and the third of matrices that lie side by side: all in blocks, or all of one
    /// format.
    pub(crate) beside: [Option<Beside>; 2],
    /// Where the number of rows of activations is among the numbers of a pass.
    pub(crate) count_at: usize,
    /// How many workgroups of how many threads.
    pub(crate) tuning: Tuning,
}

/// A matrix beside another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Beside {
    /// How its weights lie.
    pub(crate) layout: Layout,
    /// Its rows: outputs.
    pub(crate) rows: usize,
}

/// What of a product's shares depends on the device rather than on the shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuning {
    /// Threads of a workgroup, where the device allows as many.
    pub(crate) threads: usize,
    /// Workgroups, at most.
    pub(crate) groups: usize,
}

/// How a product is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    /// Threads of a workgroup.
    threads: usize,
    /// Rows of the matrix that a subgroup takes at a time.
    each: usize,
    /// Units of such a row that a lane fetches at a time.
    ahead: usize,
    /// Rows of the matrix that a workgroup takes in all.
    tile: usize,
    /// Units of activations that a workgroup keeps at a time.
    chunk: usize,
    /// Lanes that prepare a unit of activations.
    share: usize,
    /// Units of activations that such lanes ask for at once.
    together: usize,
}

impl Linear {
    fn shares(&self, abilities: &Abilities) -> Shares {
        /// Units that a lane has on their way at a time: enough to cover the way to memory, few
        /// enough for registers to hold them twice.
        const FLIGHT: usize = 8;
        let Tuning { threads, groups } = self.tuning;
        let threads = threads.min(abilities.workgroup_threads as usize);
        let matrices = 1 + usize::from(self.glu);
        let width = (abilities.subgroup as usize).clamp(1, threads);
        let units = self.layout.units(self.k);
        let along = units.div_ceil(width);
        let flight = FLIGHT / self.batch.min(4) / matrices;
        // a matrix of few rows leaves each subgroup one, so that there are enough of them
        let all: usize = self.sides().map(|side| side.rows).sum();
        let rows = all.div_ceil(groups * threads / width).min(2);
        let ahead = along.min(flight).clamp(1, 4);
        let each = match self.batch {
            1..=4 => (flight / ahead).clamp(1, rows),
            _ => 1,
        };
        let step = each * (threads / width);
        let turns = all.div_ceil(step * groups);
        let unit_bytes = if self.layout.blocks() { 40 } else { 4 * self.layout.unit };
        let squares = 4 * self.batch * threads.div_ceil(width);
        let room = (abilities.workgroup_bytes as usize).min(32 << 10).saturating_sub(squares);
        let most = (room / (unit_bytes * self.batch)).max(1);
        // in whole pairs of units: two lanes share one
        let chunk = if units <= most { units } else { (most & !1).max(1) };
        // side by side lanes read side by side, four numbers each
        let share = 1 << width.clamp(2, 8).ilog2();
        let asked = (chunk * share).div_ceil(threads);
        // registers for what is asked for: four a lane, and as many for the norm's weights
        let most = if self.batch == 1 { share } else { share / 2 };
        let together = asked.div_ceil(asked.div_ceil(most));
        Shares { threads, each, ahead, tile: step * turns, chunk, share, together }
    }

    /// Workgroups along the rows of the matrices.
    pub(crate) fn groups(&self, abilities: &Abilities) -> u32 {
        let tile = self.shares(abilities).tile;
        self.sides().map(|side| side.rows.div_ceil(tile) as u32).sum()
    }

    /// Whether another way to share the product out may be worth trying: whether rows do not divide
    /// evenly, so that workgroups of a last turn have nothing to do.
    pub(crate) fn uneven(&self, abilities: &Abilities) -> bool {
        let Shares { threads, each, tile, .. } = self.shares(abilities);
        let several = tile * abilities.subgroup as usize > each * threads;
        several && 10 * self.groups(abilities) < 9 * self.tuning.groups as u32
    }

    /// The matrices that lie side by side.
    fn sides(&self) -> impl Iterator<Item = Beside> {
        let first = Beside { layout: self.layout, rows: self.rows };
        [first].into_iter().chain(self.beside.into_iter().flatten())
    }

    /// The layout of each matrix: of the gate and what it lets through, or of each side.
    fn layouts(&self) -> Vec<Layout> {
        let gate = self.glu.then_some(self.layout);
        gate.into_iter().chain(self.sides().map(|side| side.layout)).collect()
    }

    /// The bindings: x, y, the numbers of the pass, the norm's weight, the bias, the y and the bias
    /// of each matrix beside the first, and each matrix's planes.
    pub(crate) fn bindings(&self) -> Vec<Access> {
        let sides = self.sides().count();
        let planes = self.layouts().iter().map(|layout| layout.planes(1, self.k).len()).sum();
        let more = usize::from(self.norm.is_some()) + usize::from(self.bias);
        let mut all = vec![Access::Read, Access::ReadWrite, Access::Read];
        all.extend(std::iter::repeat_n(Access::Read, more));
        for _ in 1..sides {
            all.push(Access::ReadWrite);
            all.extend(self.bias.then_some(Access::Read));
        }
        all.extend(std::iter::repeat_n(Access::Read, planes));
        all
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self, abilities: &Abilities) -> Result<String, Error> {
        let Shares { threads, each, ahead, tile, chunk, share, together } = self.shares(abilities);
        let units = self.layout.units(self.k);
        let fixed = (abilities.subgroup == abilities.widest_subgroup)
            .then_some(abilities.subgroup as usize)
            .filter(|width| threads.is_multiple_of(*width));
        let width = (abilities.subgroup as usize).clamp(1, threads);
        let parts = units.div_ceil(width * ahead);
        let mut end = 0;
        let sides: Vec<Value> = self
            .sides()
            .map(|Beside { rows, .. }| {
                let first = end;
                end += rows.div_ceil(tile);
                let stride = if self.beside == [None; 2] { self.stride } else { rows };
                context! { rows, stride, first, end }
            })
            .collect();
        let layouts = self.layouts();
        let matrices: Vec<Value> = layouts
            .iter()
            .enumerate()
            .map(|(i, layout)| {
                // formats are told apart by the first matrix that has them
                let first = layouts.iter().position(|other| other == layout).unwrap_or(i);
                let kind = if first == 0 { String::new() } else { first.to_string() };
                context! { kind, defines => first == i, of => source::format(layout) }
            })
            .collect();
        source::render(
            "linear.wgsl",
            context! {
                k => self.k,
                offset => self.offset,
                batch => self.batch,
                eps => self.norm.map_or_else(String::new, source::float),
                norm => self.norm.is_some(),
                bias => self.bias,
                add => self.add,
                glu => self.glu,
                sides, matrices,
                count_at => self.count_at,
                fixed_width => fixed.unwrap_or(0),
                // whether every lane has a unit in every part
                exact => fixed.is_some() && units == parts * ahead * width,
                subgroups => threads.div_ceil(width),
                units, parts, threads, each, ahead, tile, chunk, share, together,
                ..source::format(&self.layout)
            },
        )
    }

    pub(crate) fn label(&self) -> String {
        format!("linear {} {}x{}", self.layout.dtype, self.rows, self.k)
    }
}

/// Kernels for the test of translations.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, String)> {
    use pelton_quant::DType;

    use crate::tuning::CANDIDATES;
    let mut all = Vec::new();
    for dtype in DType::ALL {
        for (batch, subgroup) in [(1, 32), (2, 8), (16, 32)] {
            for (norm, bias, add, glu) in [
                (None, false, false, false),
                (Some(1e-5), true, false, false),
                (None, true, true, false),
                (Some(1e-5), false, false, true),
            ] {
                let layout = Layout::of(dtype);
                let (k, rows, stride) = (2816, 70, 100);
                let linear = Linear {
                    layout,
                    k,
                    rows,
                    offset: 30,
                    stride,
                    batch,
                    norm,
                    bias,
                    add,
                    glu,
                    beside: if glu || add {
                        [None; 2]
                    } else {
                        // next to blocks there may be others
                        let other = if layout.blocks() { Layout::of(DType::Q6_K) } else { layout };
                        [(layout, 40), (other, 7)]
                            .map(|(layout, rows)| Some(Beside { layout, rows }))
                    },
                    count_at: 0,
                    tuning: CANDIDATES[0],
                };
                let abilities = Abilities {
                    subgroup,
                    widest_subgroup: 32,
                    batch: 16,
                    matrix_cores: false,
                    timestamps: false,
                    workgroup_threads: 256,
                    workgroup_bytes: 32 << 10,
                    binding_bytes: 1 << 27,
                    buffer_bytes: 1 << 28,
                };
                all.push((format!("{linear:?}"), linear.source(&abilities).unwrap()));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use pelton_quant::DType;
    use pelton_testing::Random;

    use super::*;
    use crate::{
        testing::{device, normals},
        tuning::CANDIDATES,
    };

    /// Rounds activations to 8 bits in blocks of 32, as the kernel does.
    fn rounded(x: &[f32]) -> Vec<f32> {
        x.chunks(32)
            .flat_map(|block| {
                let most = block.iter().fold(0.0f32, |m, v| m.max(v.abs()));
                let inverse = 127.0 / most;
                block.iter().map(move |v| (v * inverse).round_ties_even() * (most / 127.0))
            })
            .collect()
    }

    /// What the plain path computes, in f64, from activations rounded as the format asks.
    fn expected(
        l: &Linear,
        x: &[f32],
        norm: &[f32],
        bias: &[f32],
        matrices: &[Vec<f32>],
    ) -> Vec<f64> {
        let mut all = Vec::new();
        for x in x.chunks(l.k) {
            let mut a: Vec<f32> = x.to_vec();
            if let Some(eps) = l.norm {
                let squares: f64 = x.iter().map(|&v| f64::from(v).powi(2)).sum();
                let factor = 1.0 / (squares / l.k as f64 + f64::from(eps)).sqrt();
                a = a.iter().zip(norm).map(|(v, w)| (f64::from(*v) * factor) as f32 * w).collect();
            }
            if l.layout.blocks() {
                a = rounded(&a);
            }
            for n in 0..l.rows {
                let product = |m: &Vec<f32>| -> f64 {
                    m[n * l.k..][..l.k]
                        .iter()
                        .zip(&a)
                        .map(|(w, a)| f64::from(*w) * f64::from(*a))
                        .sum()
                };
                let first = product(&matrices[0]);
                all.push(match l.glu {
                    true => first / (1.0 + (-first).exp()) * product(&matrices[1]),
                    false => first + if l.bias { f64::from(bias[n]) } else { 0.0 },
                });
            }
        }
        all
    }

    /// Runs a product, of each matrix that lies beside others too, and holds it against f64.
    fn compare(l: Linear, count: usize) {
        let Some(device) = device() else { return };
        let mut random = Random::new(3);
        let x = normals(1, l.k * count);
        let norm = normals(2, l.k);
        let sides: Vec<Linear> = l
            .sides()
            .map(|Beside { layout, rows }| Linear { layout, rows, beside: [None; 2], ..l })
            .collect();
        let biases: Vec<Vec<f32>> = sides.iter().map(|side| normals(3, side.rows)).collect();
        let before: Vec<Vec<f32>> =
            sides.iter().map(|side| normals(5, side.rows * count)).collect();
        let files: Vec<Vec<Vec<u8>>> = sides
            .iter()
            .map(|side| {
                let matrices = 1 + usize::from(l.glu);
                let len = l.k * side.rows;
                (0..matrices).map(|_| random.blocks(side.layout.dtype, len, 0.0, 0.1)).collect()
            })
            .collect();
        // poison: what is not written shows
        let ys: Vec<wgpu::Buffer> = before
            .iter()
            .map(|before| {
                device.with(&if l.add { before.clone() } else { vec![f32::NAN; before.len()] })
            })
            .collect();
        let x_buffer = device.with(&x);
        let pass = device.with(&[count as u32, count as u32]);
        let norm_buffer = device.with(&norm);
        let bias_buffers: Vec<wgpu::Buffer> = biases.iter().map(|bias| device.with(bias)).collect();
        let mut buffers = vec![&x_buffer, &ys[0], &pass];
        buffers.extend(l.norm.map(|_| &norm_buffer));
        buffers.extend(l.bias.then_some(&bias_buffers[0]));
        for (y, bias) in ys.iter().zip(&bias_buffers).skip(1) {
            buffers.push(y);
            buffers.extend(l.bias.then_some(bias));
        }
        let planes: Vec<wgpu::Buffer> = sides
            .iter()
            .zip(&files)
            .flat_map(|(side, files)| files.iter().map(move |bytes| (side, bytes)))
            .flat_map(|(side, bytes)| {
                let layout = &side.layout;
                let mut planes: Vec<Vec<u8>> =
                    layout.planes(side.rows, l.k).iter().map(|&n| vec![0; n as usize]).collect();
                let mut views: Vec<&mut [u8]> = planes.iter_mut().map(Vec::as_mut_slice).collect();
                layout.pack(bytes, l.k, &mut views);
                planes.into_iter().map(|plane| device.with(&plane)).collect::<Vec<_>>()
            })
            .collect();
        buffers.extend(&planes);
        let source = l.source(&device.abilities).unwrap();
        let kernel = device.kernel(&l.label(), &source, &l.bindings()).unwrap();
        device.run(
            &kernel,
            &buffers,
            [l.groups(&device.abilities), count.div_ceil(l.batch) as u32, 1],
        );
        for (i, side) in sides.iter().enumerate() {
            let matrices: Vec<Vec<f32>> = files[i]
                .iter()
                .map(|bytes| {
                    let mut values = vec![0.0; l.k * side.rows];
                    pelton_quant::decode(side.layout.dtype, bytes, &mut values).unwrap();
                    values
                })
                .collect();
            let got: Vec<f32> = device.content(&ys[i]);
            let expected = expected(side, &x, &norm, &biases[i], &matrices);
            let squares: f64 = expected.iter().map(|v| v * v).sum();
            let scale = (squares / expected.len() as f64).sqrt();
            for (n, (got, expected)) in got.iter().zip(&expected).enumerate() {
                let expected = expected + if l.add { f64::from(before[i][n]) } else { 0.0 };
                let difference = (f64::from(*got) - expected).abs();
                // a code on the edge between two may round either way
                let tolerance = if l.layout.blocks() { 5e-3 } else { 1e-5 };
                assert!(
                    difference < tolerance * scale,
                    "{side:?} output {n}: {got} for {expected}"
                );
            }
        }
    }

    fn linear(dtype: DType, k: usize, rows: usize) -> Linear {
        Linear {
            layout: Layout::of(dtype),
            k,
            rows,
            offset: 0,
            stride: rows,
            batch: 1,
            norm: None,
            bias: false,
            add: false,
            glu: false,
            beside: [None; 2],
            count_at: 0,
            tuning: CANDIDATES[0],
        }
    }

    #[test]
    fn every_format_at_odd_shapes() {
        for dtype in DType::ALL {
            let step = dtype.block_len();
            let odd = match step {
                1 => [4, 50, 131],
                step => [step, 3 * step, 5 * step],
            };
            for (k, rows) in odd.into_iter().zip([1, 37, 70]) {
                compare(linear(dtype, k, rows), 1);
                compare(Linear { batch: 4, ..linear(dtype, k, rows) }, 3);
            }
        }
    }

    #[test]
    fn what_comes_before_and_after() {
        for dtype in [DType::F32, DType::Q4_0, DType::Q6_K] {
            let plain = linear(dtype, 512, 70);
            for batch in [1, 2, 16] {
                let plain = Linear { batch, ..plain };
                let norm = Some(1e-5);
                let count = batch + batch / 2;
                compare(Linear { norm, bias: true, ..plain }, count);
                // a software driver takes seconds to compile for so many rows
                if batch == 16 {
                    continue;
                }
                compare(Linear { add: true, ..plain }, count);
                compare(Linear { norm, glu: true, ..plain }, count);
            }
        }
    }

    /// However a product is shared out, it is the same.
    #[test]
    fn every_tuning() {
        for tuning in CANDIDATES {
            for (k, rows) in [(512, 70), (1536, 1300)] {
                compare(Linear { tuning, norm: Some(1e-5), ..linear(DType::Q4_0, k, rows) }, 1);
            }
        }
    }

    /// Side by side there may be several formats, with rows that fill no workgroup.
    #[test]
    fn matrices_side_by_side() {
        use DType::{F16, Q4_0, Q4_K, Q6_K};
        for (k, dtypes) in [
            (512, [Q4_K, Q4_K, Q6_K].as_slice()),
            (512, &[Q6_K, Q4_0]),
            (512, &[Q4_0, Q4_0, Q4_0]),
            (50, &[F16, F16, F16]),
        ] {
            let side = |i: usize| {
                let rows = [0, 37, 70][i];
                dtypes.get(i).map(|&dtype| Beside { layout: Layout::of(dtype), rows })
            };
            for (batch, bias) in [(1, false), (1, true), (4, true)] {
                let norm = Some(1e-5);
                let beside = [side(1), side(2)];
                let first = linear(dtypes[0], k, 130);
                compare(Linear { batch, norm, bias, beside, ..first }, batch);
            }
        }
    }

    /// Rows that do not fit a workgroup's memory are taken in parts.
    #[test]
    fn long_rows() {
        for dtype in [DType::F16, DType::Q8_0, DType::Q4_K] {
            compare(Linear { batch: 8, norm: Some(1e-5), ..linear(dtype, 2816, 9) }, 8);
        }
    }
}
