//! Matrix products of decoding rows: the variants of `matvec.wgsl` for each shape.
//!
//! Activations are rounded to 8-bit codes in blocks of 32, as on the CPU's fast path.
//! `dot4I8Packed` makes four products an instruction; converting each weight to a float would leave
//! too few instructions to keep up with the memory. Up to 4 rows are quantized in every workgroup
//! of the product itself. A norm before the product costs no dispatch: its factor does not change
//! the codes and is multiplied into the sums at the end.

use minijinja::{Value, context};
use pelton_graph::{Activation, Error, Gating};

use crate::{
    device::{Capabilities, KernelSource},
    kernels::{experts::Experts, template},
    weights::Layout,
};

/// The properties of a product `y[r][n] = Σ_k W[n][k] · x[r][k]` that its kernel depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MatVec {
    /// The layout of the weights.
    pub(crate) layout: Layout,
    /// Elements of a row of the matrix.
    pub(crate) k: usize,
    /// Rows of this shard of the matrix: outputs.
    pub(crate) rows: usize,
    /// Outputs of the shards before this one.
    pub(crate) offset: usize,
    /// Outputs of all shards.
    pub(crate) stride: usize,
    /// Rows of activations for which weights are read once.
    pub(crate) batch: usize,
    /// The `eps` of a norm before the product.
    pub(crate) norm: Option<f32>,
    /// Whether a bias is added.
    pub(crate) bias: bool,
    /// The function of the result of a single matrix, which is not added.
    pub(crate) activation: Option<Activation>,
    /// Whether the result is added to y.
    pub(crate) add: bool,
    /// The gated product of two matrices, gate and up, if it is the result.
    pub(crate) glu: Option<Gating>,
    /// The second and third matrix of a fused product of the same x, with outputs of their own: all
    /// in blocks, or all of one format.
    pub(crate) fused_with: [Option<FusedMatrix>; 2],
    /// The index of the number of rows among the row counts of the pass.
    pub(crate) count_at: usize,
    /// The matrices of this shard, if there are several, each of `rows` rows.
    pub(crate) experts: Option<Experts>,
    /// Workgroups and their threads.
    pub(crate) tuning: Tuning,
}

/// One of the matrices of a fused product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FusedMatrix {
    /// The layout of its weights.
    pub(crate) layout: Layout,
    /// Its rows: outputs.
    pub(crate) rows: usize,
}

/// The part of a launch shape that depends on the GPU rather than on the product; see
/// [`autotune`](crate::lower::autotune).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuning {
    /// Threads of a workgroup, if the GPU allows as many.
    pub(crate) threads: usize,
    /// Maximum workgroups.
    pub(crate) groups: usize,
    /// Weights that a lane prefetches.
    pub(crate) stage: Stage,
}

/// The weights that a lane prefetches, which take registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Eight units of up to two rows: enough to hide the latency of memory, few enough for
    /// registers to hold them twice, with most formats.
    Wide,
    /// As [`Wide`](Self::Wide), but of one row all eight units in one stage, not four in each of
    /// two: a single round trip to memory.
    Long,
    /// Four units of one row.
    Narrow,
}

impl Tuning {
    /// The candidates; the first is the default of GPUs on which nothing can be timed.
    pub(crate) const CANDIDATES: [Self; 4] = [
        Self { threads: 512, groups: 264, stage: Stage::Wide },
        Self { threads: 512, groups: 132, stage: Stage::Wide },
        Self { threads: 512, groups: 528, stage: Stage::Wide },
        Self { threads: 256, groups: 264, stage: Stage::Wide },
    ];
}

/// The launch shape of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LaunchShape {
    /// Threads of a workgroup.
    threads: usize,
    /// Rows of the matrix that a subgroup computes at a time.
    each: usize,
    /// Units of such a row that a lane prefetches.
    ahead: usize,
    /// Rows of the matrix that a workgroup computes.
    tile: usize,
    /// Units of activations in workgroup memory at a time.
    chunk: usize,
    /// Lanes that quantize a unit of activations.
    share: usize,
    /// Units of activations that such lanes load at once.
    together: usize,
}

impl MatVec {
    fn launch(&self, capabilities: &Capabilities) -> LaunchShape {
        let Tuning { threads, groups, stage } = self.tuning;
        // units, and rows of them
        let [flight, most] = match stage {
            Stage::Wide | Stage::Long => [8, 2],
            Stage::Narrow => [4, 1],
        };
        // each chosen expert and each head has workgroups of its own
        let groups = self.experts.map_or(groups, |experts| (groups / experts.used).max(1));
        let threads = threads.min(capabilities.workgroup_threads as usize);
        let matrices = 1 + usize::from(self.glu.is_some());
        let width = (capabilities.subgroup as usize).clamp(1, threads);
        let widest = (capabilities.widest_subgroup as usize).clamp(width, threads);
        let units = self.layout.units(self.k);
        let along = units.div_ceil(width);
        let flight = (flight / self.batch.min(4) / matrices).max(1);
        // a subgroup computes one of few rows at a time, so that there are enough subgroups
        let all: usize = self.sides().map(|side| side.rows).sum();
        let rows = all.div_ceil(groups * threads / width).min(most);
        let along_row = if stage == Stage::Long && rows == 1 { 8 } else { 4 };
        let ahead = along.min(flight).clamp(1, along_row);
        let each = match self.batch {
            1..=4 => (flight / ahead).clamp(1, rows),
            _ => 1,
        };
        let step = each * (threads / width);
        let iterations = all.div_ceil(step * groups);
        let unit_bytes = if self.layout.blocks() { 40 } else { 4 * self.layout.unit };
        let squares = 4 * self.batch * threads.div_ceil(width);
        let room = match self.batch {
            1..=4 => 32 << 10,
            // whole rows of activations in workgroup memory need no barriers between chunks
            _ => 48 << 10,
        };
        let room = room.min(capabilities.workgroup_bytes as usize).saturating_sub(squares);
        let most = (room / (unit_bytes * self.batch)).max(1);
        // a lane has the same units for any length of chunks, so that sums have one order
        let chunk = if units <= most { units } else { (most / widest).max(1) * widest };
        // adjacent lanes read adjacent vectors of four elements
        let share = 1 << width.clamp(2, 8).ilog2();
        let loads = (chunk * share).div_ceil(threads);
        // registers for the loads: four a lane, and as many for the norm's weights
        let most = if self.batch == 1 { share } else { share / 2 };
        let together = loads.div_ceil(loads.div_ceil(most));
        LaunchShape { threads, each, ahead, tile: step * iterations, chunk, share, together }
    }

    /// Workgroups along the rows of the matrices.
    pub(crate) fn groups(&self, capabilities: &Capabilities) -> u32 {
        let tile = self.launch(capabilities).tile;
        self.sides().map(|side| side.rows.div_ceil(tile) as u32).sum()
    }

    /// Whether other candidates of [`Tuning`] may be faster: whether the rows do not divide evenly,
    /// so that workgroups have no work in the last iteration.
    pub(crate) fn uneven(&self, capabilities: &Capabilities) -> bool {
        let LaunchShape { threads, each, tile, .. } = self.launch(capabilities);
        let several =
            self.experts.is_none() && tile * capabilities.subgroup as usize > each * threads;
        several && 10 * self.groups(capabilities) < 9 * self.tuning.groups as u32
    }

    /// The matrices with outputs of their own.
    fn sides(&self) -> impl Iterator<Item = FusedMatrix> {
        let first = FusedMatrix { layout: self.layout, rows: self.rows };
        [first].into_iter().chain(self.fused_with.into_iter().flatten())
    }

    /// The layout of each matrix: gate and up, or those of [`sides`](Self::sides).
    fn layouts(&self) -> Vec<Layout> {
        let gate = self.glu.map(|_| self.layout);
        gate.into_iter().chain(self.sides().map(|side| side.layout)).collect()
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self, capabilities: &Capabilities) -> Result<KernelSource, Error> {
        let LaunchShape { threads, each, ahead, tile, chunk, share, together } =
            self.launch(capabilities);
        let units = self.layout.units(self.k);
        let fixed = (capabilities.subgroup == capabilities.widest_subgroup)
            .then_some(capabilities.subgroup as usize)
            .filter(|width| threads.is_multiple_of(*width));
        let width = (capabilities.subgroup as usize).clamp(1, threads);
        let k_steps = units.div_ceil(width * ahead);
        let mut end = 0;
        let sides: Vec<Value> = self
            .sides()
            .map(|FusedMatrix { rows, .. }| {
                let first = end;
                end += rows.div_ceil(tile);
                let stride = if self.fused_with == [None; 2] { self.stride } else { rows };
                context! { rows, stride, first, end }
            })
            .collect();
        let layouts = self.layouts();
        let matrices = template::matrices(&layouts);
        template::render(
            "matvec.wgsl",
            context! {
                k => self.k,
                offset => self.offset,
                batch => self.batch,
                eps => self.norm.map_or_else(String::new, template::float),
                norm => self.norm.is_some(),
                bias => self.bias,
                activation => self.activation.map(Activation::name),
                add => self.add,
                glu => self.glu.is_some(),
                gating => self.glu.as_ref().map(template::gating),
                element => "f32",
                experts => self.experts.map(|experts| experts.parameters(self.rows)),
                sides, matrices,
                count_at => self.count_at,
                fixed_width => fixed.unwrap_or(0),
                // whether every lane has a unit in every K step
                exact => fixed.is_some() && units == k_steps * ahead * width,
                subgroups => threads.div_ceil(width),
                units, k_steps, threads, each, ahead, tile, chunk, share, together,
                ..template::format(&self.layout)
            },
        )
    }

    pub(crate) fn label(&self) -> String {
        format!("linear {} {}x{}", self.layout.dtype, self.rows, self.k)
    }
}

#[cfg(test)]
const SILU: Option<Gating> = Some(Gating::Product(pelton_graph::Activation::Silu));

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    use pelton_quant::DType;

    let mut all = Vec::new();
    for dtype in DType::ALL {
        for (batch, subgroup) in [(1, 32), (2, 8), (16, 32)] {
            for (norm, bias, add, glu) in [
                (None, false, false, None),
                (Some(1e-5), true, false, None),
                (None, true, true, None),
                (Some(1e-5), false, false, SILU),
            ] {
                let of = |dtype| Layout::of(dtype).joined(subgroup == 8);
                let layout = of(dtype);
                let (k, rows, stride) = (2816, 70, 100);
                let linear = MatVec {
                    layout,
                    k,
                    rows,
                    offset: 30,
                    stride,
                    batch,
                    norm,
                    bias,
                    activation: (bias && !add && glu.is_none()).then_some(Activation::GeluErf),
                    add,
                    glu,
                    fused_with: if glu.is_some() || add {
                        [None; 2]
                    } else {
                        // blocks of several formats can be fused
                        let other = if layout.blocks() { of(DType::Q6_K) } else { layout };
                        [(layout, 40), (other, 7)]
                            .map(|(layout, rows)| Some(FusedMatrix { layout, rows }))
                    },
                    count_at: 0,
                    experts: None,
                    tuning: Tuning::CANDIDATES[0],
                };
                let capabilities = Capabilities {
                    subgroup,
                    widest_subgroup: 32,
                    batch: 16,
                    matrix_cores: false,
                    core: 16,
                    timestamps: false,
                    workgroup_threads: 256,
                    workgroup_bytes: 32 << 10,
                    binding_bytes: 1 << 27,
                    buffer_bytes: 1 << 28,
                    storage_buffers: 32,
                };
                all.push((format!("{linear:?}"), linear.source(&capabilities).unwrap()));
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
    use crate::testing::{device, normals};

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

    /// The product in f64, of activations rounded as for the format.
    fn expected(
        l: &MatVec,
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
                all.push(match l.glu.is_some() {
                    true => first / (1.0 + (-first).exp()) * product(&matrices[1]),
                    false => first + if l.bias { f64::from(bias[n]) } else { 0.0 },
                });
            }
        }
        all
    }

    /// Runs a product and compares the outputs of each matrix with f64.
    fn compare(l: MatVec, count: usize) {
        let Some(device) = device() else { return };
        let mut random = Random::new(3);
        let x = normals(1, l.k * count);
        let norm = normals(2, l.k);
        let sides: Vec<MatVec> = l
            .sides()
            .map(|FusedMatrix { layout, rows }| MatVec { layout, rows, fused_with: [None; 2], ..l })
            .collect();
        let biases: Vec<Vec<f32>> = sides.iter().map(|side| normals(3, side.rows)).collect();
        let before: Vec<Vec<f32>> =
            sides.iter().map(|side| normals(5, side.rows * count)).collect();
        let files: Vec<Vec<Vec<u8>>> = sides
            .iter()
            .map(|side| {
                let matrices = 1 + usize::from(l.glu.is_some());
                let len = l.k * side.rows;
                (0..matrices).map(|_| random.blocks(side.layout.dtype, len, 0.0, 0.1)).collect()
            })
            .collect();
        // NaN, so that an element that is not written fails the comparison
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
                let planes = layout.packed(bytes, side.rows, l.k);
                planes.into_iter().map(|plane| device.with(&plane)).collect::<Vec<_>>()
            })
            .collect();
        buffers.extend(&planes);
        let source = l.source(&device.capabilities).unwrap();
        let kernel = device.kernel(&l.label(), &source).unwrap();
        device.run(
            &kernel,
            &buffers,
            [l.groups(&device.capabilities), count.div_ceil(l.batch) as u32, 1],
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
                // a value halfway between two codes may round to either
                let tolerance = if l.layout.blocks() { 5e-3 } else { 1e-5 };
                assert!(
                    difference < tolerance * scale,
                    "{side:?} output {n}: {got} for {expected}"
                );
            }
        }
    }

    fn linear(dtype: DType, k: usize, rows: usize) -> MatVec {
        MatVec {
            layout: Layout::of(dtype),
            k,
            rows,
            offset: 0,
            stride: rows,
            batch: 1,
            norm: None,
            bias: false,
            activation: None,
            add: false,
            glu: None,
            fused_with: [None; 2],
            count_at: 0,
            experts: None,
            tuning: Tuning::CANDIDATES[0],
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
                compare(MatVec { batch: 4, ..linear(dtype, k, rows) }, 3);
            }
        }
    }

    #[test]
    fn norms_biases_sums_and_gates() {
        for dtype in [DType::F32, DType::Q4_0, DType::Q6_K] {
            let product = linear(dtype, 512, 70);
            for batch in [1, 2, 16] {
                let product = MatVec { batch, ..product };
                let norm = Some(1e-5);
                let count = batch + batch / 2;
                compare(MatVec { norm, bias: true, ..product }, count);
                // a software driver takes seconds to compile for so many rows
                if batch == 16 {
                    continue;
                }
                compare(MatVec { add: true, ..product }, count);
                compare(MatVec { norm, glu: SILU, ..product }, count);
            }
        }
    }

    /// The result does not depend on the launch shape.
    #[test]
    fn every_tuning() {
        let of_persistent =
            [Stage::Long, Stage::Narrow].map(|stage| Tuning { stage, ..Tuning::CANDIDATES[0] });
        for tuning in Tuning::CANDIDATES.into_iter().chain(of_persistent) {
            for (k, rows) in [(512, 70), (1536, 1300)] {
                compare(MatVec { tuning, norm: Some(1e-5), ..linear(DType::Q4_0, k, rows) }, 1);
            }
        }
    }

    /// Fused matrices of several formats, with rows that fill no workgroup.
    #[test]
    fn fused_matrices() {
        use DType::{F16, Q4_0, Q4_K, Q6_K};
        for (k, dtypes) in [
            (512, [Q4_K, Q4_K, Q6_K].as_slice()),
            (512, &[Q6_K, Q4_0]),
            (512, &[Q4_0, Q4_0, Q4_0]),
            (50, &[F16, F16, F16]),
        ] {
            let side = |i: usize| {
                let rows = [0, 37, 70][i];
                dtypes.get(i).map(|&dtype| FusedMatrix { layout: Layout::of(dtype), rows })
            };
            for (batch, bias) in [(1, false), (1, true), (4, true)] {
                let norm = Some(1e-5);
                let fused_with = [side(1), side(2)];
                let first = linear(dtypes[0], k, 130);
                compare(MatVec { batch, norm, bias, fused_with, ..first }, batch);
            }
        }
    }

    /// Matrices with codebooks, of one format and of several, in one kernel.
    #[test]
    fn codebooks() {
        use DType::{IQ1_M, IQ2_S, IQ3_S, IQ3_XXS, MXFP4};
        compare(MatVec { norm: Some(1e-5), glu: SILU, ..linear(IQ3_S, 512, 70) }, 1);
        for dtypes in [[IQ3_S, IQ2_S, MXFP4], [IQ1_M, IQ1_M, IQ3_XXS]] {
            let side = |i: usize| FusedMatrix { layout: Layout::of(dtypes[i]), rows: 37 };
            let fused_with = [Some(side(1)), Some(side(2))];
            compare(MatVec { norm: Some(1e-5), fused_with, ..linear(dtypes[0], 512, 130) }, 1);
        }
    }

    /// Rows that do not fit in workgroup memory are computed in chunks.
    #[test]
    fn long_rows() {
        for dtype in [DType::F16, DType::Q8_0, DType::Q4_K] {
            compare(MatVec { batch: 8, norm: Some(1e-5), ..linear(dtype, 2816, 9) }, 8);
        }
    }
}
