//! Products with matrices in input-major order: the variants of `input_major.wgsl`, `row_major.wgsl` and
//! `rows_below.wgsl`.

use minijinja::{Value, context};
use pelton_graph::{Error, Gating};
use pelton_quant::DType;

use crate::{
    device::{Capabilities, KernelSource},
    kernels::{
        choose_inputs::{ChooseInputs, list_vectors},
        template,
    },
    weights::{Layout, Lines},
};

/// Outputs of a product of one matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Side {
    /// The matrix.
    pub(crate) lines: Lines,
    /// Whether a bias is added.
    pub(crate) bias: bool,
}

/// Products of rows with one to three matrices of one format and with the same number of inputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InputMajor {
    /// The matrices.
    pub(crate) sides: Vec<Side>,
    /// The `eps` of a norm before the product.
    pub(crate) norm: Option<f32>,
    /// Whether the result is added to y.
    pub(crate) add: bool,
    /// Whether the result is written to another buffer than y.
    pub(crate) apart: bool,
    /// The gated product of two sides without biases, if it is the result.
    pub(crate) glu: Option<Gating>,
    /// Whether only the inputs in the lists of `choose_inputs.wgsl` are multiplied.
    pub(crate) chosen: bool,
    /// The first of the rows' numbers of live inputs, and the step from row to row.
    pub(crate) lives_at: [usize; 2],
    /// Whether only rows of an effort below 1 are computed.
    pub(crate) only_below: bool,
    /// Threads of a workgroup, where the GPU allows as many. A norm needs those of the product in
    /// row-major order, so that squares are summed in the same order.
    pub(crate) threads: usize,
}

/// Workgroups of a dispatch, at least, if workgroups can have fewer outputs: most of the multiprocessors of
/// a large GPU.
const GROUPS: usize = 96;
/// Words of a line that a workgroup reads, at most and at least: two sectors of memory, and half of one.
const WIDTH: usize = 16;
const LEAST_WIDTH: usize = 4;
/// Bytes of small arrays in workgroup memory.
const SMALL: usize = 512;

/// The launch shape of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LaunchShape {
    threads: usize,
    /// Partial sums of an output: the lanes of `matvec.wgsl`.
    chains: usize,
    /// Threads that have the words of a line, and groups of them that divide the lines of a block.
    width: usize,
    groups: usize,
}

impl InputMajor {
    fn launch(&self, capabilities: &Capabilities) -> LaunchShape {
        let threads = self.threads.min(capabilities.workgroup_threads as usize);
        let chains = (capabilities.subgroup as usize).clamp(1, threads.min(64));
        let lines = self.lines();
        let fixed = capabilities.subgroup == capabilities.widest_subgroup;
        let fields = lines.fields();
        let divide = |width: usize, groups: usize| {
            let lanes = width * groups;
            let halves = fields.upper_bits == 2;
            fields.blocks()
                && fixed
                && lanes <= capabilities.subgroup as usize
                && lanes * chains <= threads
                && fields.per_word >= 2 * groups
                && !(halves && groups > 2)
        };
        let groups = |width: usize| [4, 2].into_iter().find(|groups| divide(width, *groups));
        let mut width = lines.line.min(WIDTH);
        let least = lines.line.min(LEAST_WIDTH);
        while width > least && self.tiles(width) < GROUPS && groups(width / 2) > groups(width) {
            width /= 2;
        }
        let groups = groups(width).unwrap_or(1);
        LaunchShape { threads, chains, width, groups }
    }

    fn lines(&self) -> Lines {
        const NONE: Lines = Lines { dtype: DType::F32, rows: 1, cols: 4, line: 32, nested: false };
        self.sides.first().map_or(NONE, |side| side.lines)
    }

    /// The sides whose outputs have workgroups of their own: gate and up are computed by the same.
    fn tiled(&self) -> &[Side] {
        if self.glu.is_some() { &self.sides[..1] } else { &self.sides }
    }

    fn tiles(&self, width: usize) -> usize {
        self.tiled().iter().map(|side| side.lines.slabs() * (side.lines.line / width)).sum()
    }

    /// Whether the GPU has the workgroup memory.
    pub(crate) fn fits(&self, capabilities: &Capabilities) -> bool {
        let LaunchShape { chains, width, .. } = self.launch(capabilities);
        let lines = self.lines();
        let fields = lines.fields();
        // codes, scale and sums of a unit
        let row = if fields.blocks() && !self.chosen { lines.cols / 32 * (32 + 8) } else { 0 };
        let sums = 4 * chains * width * fields.per_word;
        row + sums + SMALL <= capabilities.workgroup_bytes as usize
    }

    /// Workgroups of a row.
    pub(crate) fn groups(&self, capabilities: &Capabilities) -> u32 {
        self.tiles(self.launch(capabilities).width) as u32
    }

    /// The WGSL of the kernel; `row_vectors` is the number of vectors of a row in the lists.
    pub(crate) fn source(
        &self,
        capabilities: &Capabilities,
        row_vectors: usize,
    ) -> Result<KernelSource, Error> {
        let LaunchShape { threads, chains, width, groups } = self.launch(capabilities);
        let lines = self.lines();
        let fields = lines.fields();
        let layout = Layout::of(lines.dtype);
        let units = layout.units(lines.cols);
        let lanes = (capabilities.subgroup as usize).clamp(1, threads);
        // as in matvec.wgsl
        let share = 1 << lanes.clamp(2, 8).ilog2();
        let loads = (units * share).div_ceil(threads);
        let together = loads.div_ceil(loads.div_ceil(share));
        let mut first = 0;
        let mut sides: Vec<Value> = Vec::with_capacity(self.sides.len());
        let mut sections: Vec<Value> = Vec::with_capacity(self.sides.len());
        for side in &self.sides {
            sides.push(context! { first, rows => side.lines.rows, bias => side.bias });
            sections.push(section(&side.lines));
            first += side.lines.slabs() * (side.lines.line / width);
        }
        template::render(
            "input_major.wgsl",
            context! {
                k => lines.cols,
                chunk => units,
                steps => units.div_ceil(chains),
                line => lines.line,
                per_word => fields.per_word,
                keep => fields.per_word / groups,
                d_fields => fields.d_fields,
                d_units => (fields.d_inputs / 32).max(1),
                sub_bytes => fields.sub,
                upper_bits => fields.upper_bits,
                halves => if fields.upper_bits == 2 { 2 } else { 1 },
                nested => lines.nested,
                norm => self.norm.is_some(),
                eps => self.norm.map_or_else(String::new, template::float),
                add => self.add,
                apart => self.apart,
                glu => self.glu.is_some(),
                gating => self.glu.as_ref().map(template::gating),
                element => "f32",
                chosen => self.chosen,
                lives_at => self.lives_at[0],
                lives_step => self.lives_at[1],
                only_below => self.only_below,
                side_vectors => list_vectors(&lines),
                subgroups => threads.div_ceil(lanes),
                units, threads, chains, width, groups, sides, sections, share, together, row_vectors,
                ..template::format(&layout)
            },
        )
    }

    pub(crate) fn label(&self) -> String {
        let rows: usize = self.sides.iter().map(|side| side.lines.rows).sum();
        let nested = if self.lines().nested { " nested" } else { "" };
        format!("input_major {}{nested} {rows}x{}", self.lines().dtype, self.lines().cols)
    }

    /// The choice of the inputs for such a product, of which rows can have a share of squared scores with
    /// `energy`.
    pub(crate) fn choice(&self, energy: bool) -> ChooseInputs {
        ChooseInputs {
            lines: self.lines(),
            sides: self.sides.len(),
            norm: self.norm,
            lives_at: self.lives_at,
            only_below: self.only_below,
            energy,
            norm_threads: self.threads,
        }
    }
}

/// The words at which the sections of a matrix begin.
fn section(lines: &Lines) -> Value {
    let sections = lines.sections();
    context! { d => sections.d / 4, sub => sections.sub / 4, high => sections.high / 4 }
}

/// A copy of a matrix in input-major order to the planes of its [`Layout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowMajor {
    /// The matrix.
    pub(crate) lines: Lines,
    /// The offset of the first plane in the buffer of the planes.
    pub(crate) start: u64,
}

impl RowMajor {
    /// Threads along the first dimension, where rows have an odd number of units.
    const ACROSS: usize = 1 << 14;

    fn units(&self) -> usize {
        Layout::of(self.lines.dtype).units(self.lines.cols)
    }

    /// The workgroups.
    pub(crate) fn groups(&self) -> [u32; 2] {
        let (rows, units) = (self.lines.rows, self.units());
        match units.is_multiple_of(2) {
            true => [rows.div_ceil(64) as u32, (units / 2) as u32],
            false => {
                let pairs = (rows * units).div_ceil(2);
                [(Self::ACROSS / 64) as u32, pairs.div_ceil(Self::ACROSS) as u32]
            }
        }
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self) -> Result<KernelSource, Error> {
        let fields = self.lines.fields();
        let layout = Layout::of(self.lines.dtype);
        let (planes, _) = layout.placed(self.lines.rows, self.lines.cols);
        // the planes that the format has, in this order
        let mut words = planes.iter().map(|(at, _)| (self.start + at) / 4);
        let mut next = |has: bool| if has { words.next().unwrap_or(0) } else { 0 };
        let low = next(true);
        let d = next(layout.d > 0);
        let sub = next(layout.sub > 0);
        let high = next(layout.high > 0);
        template::render(
            "row_major.wgsl",
            context! {
                k => self.lines.cols,
                units => self.units(),
                rows => self.lines.rows,
                line => self.lines.line,
                per_word => fields.per_word,
                d_fields => fields.d_fields,
                d_units => (fields.d_inputs / 32).max(1),
                upper_bits => fields.upper_bits,
                // codes of 8 bits
                whole => self.lines.dtype == DType::Q8_0,
                section => section(&self.lines),
                blocks => fields.blocks(),
                unit => layout.unit,
                across => Self::ACROSS,
                low, d, sub, high,
            },
        )
    }
}

/// An op on the rows `[width]` of an effort below 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowsBelow {
    /// Elements of a row.
    pub(crate) width: usize,
    /// The first of the rows' numbers of live inputs, and the step from row to row.
    pub(crate) lives_at: [usize; 2],
    /// The gated product of y and the other buffer, which else is copied.
    pub(crate) glu: Option<Gating>,
}

impl RowsBelow {
    /// Workgroups of a row.
    pub(crate) fn groups(&self) -> u32 {
        self.width.div_ceil(64) as u32
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self) -> Result<KernelSource, Error> {
        template::render(
            "rows_below.wgsl",
            context! {
                width => self.width,
                lives_at => self.lives_at[0],
                lives_step => self.lives_at[1],
                glu => self.glu.is_some(),
                gating => self.glu.as_ref().map(template::gating),
                element => "f32",
            },
        )
    }
}

/// Kernels for the test of translations.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    use pelton_graph::Activation;

    let mut all = Vec::new();
    let of_all = DType::ALL.into_iter().filter_map(|dtype| Lines::new(dtype, 70, 1280));
    for lines in of_all.chain(Lines::nested(DType::Q8_0, 70, 1280)) {
        for subgroup in [8, 32, 64] {
            let capabilities = crate::testing::capabilities(subgroup);
            let side = |bias| Side { lines, bias };
            let plain = InputMajor {
                sides: vec![side(false)],
                norm: None,
                add: true,
                apart: false,
                glu: None,
                chosen: false,
                lives_at: [0, 1],
                only_below: false,
                threads: 256,
            };
            let gating = Some(Gating::Product(Activation::Silu));
            let norm = Some(1e-5);
            for product in [
                InputMajor { sides: vec![side(true); 3], add: false, norm, ..plain.clone() },
                InputMajor {
                    sides: vec![side(false); 2],
                    add: false,
                    norm,
                    glu: gating,
                    ..plain.clone()
                },
                InputMajor { apart: true, only_below: true, ..plain.clone() },
                plain,
            ] {
                let choice = product.choice(true);
                for product in [InputMajor { chosen: true, ..product.clone() }, product] {
                    let source = product.source(&capabilities, 1000).unwrap();
                    all.push((format!("{product:?}"), source));
                }
                let source = choice.source(&capabilities, 1000).unwrap();
                all.push((format!("{choice:?}"), source));
            }
        }
        let copy = RowMajor { lines, start: 0 };
        all.push((format!("{copy:?}"), copy.source().unwrap()));
    }
    for glu in [None, Some(Gating::Product(Activation::Silu))] {
        let rows = RowsBelow { width: 70, lives_at: [3, 4], glu };
        all.push((format!("{rows:?}"), rows.source().unwrap()));
    }
    all
}

#[cfg(test)]
mod tests;
