//! Products with matrices in input-major order, for rows of any effort: the variants of
//! `input_major.wgsl`, `row_major.wgsl` and `rows_below.wgsl`.

use minijinja::{Value, context};
use pelton_graph::{Error, Gating};

use crate::{
    device::{Access, Capabilities},
    kernels::template,
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

/// Products of rows with one to three matrices of one format and with the same number of inputs, from
/// which each has live inputs of its own.
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
    /// The gated product of two sides, if it is the result.
    pub(crate) glu: Option<Gating>,
    /// The first of the rows' numbers of live inputs, and the step from row to row.
    pub(crate) lives_at: [usize; 2],
    /// Whether only rows of an effort below 1 are computed.
    pub(crate) only_below: bool,
    /// Whether K splits have workgroups of their own, which exchange their sums: for rows of decoding.
    pub(crate) on_grid: bool,
    /// Threads of a workgroup, where the GPU allows as many. With a norm those of the product in
    /// row-major order, so that squares are summed in the same order.
    pub(crate) threads: usize,
}

/// Workgroups of a dispatch, at least, if K splits can be so many: about those of a large GPU that run at
/// once.
const GROUPS: usize = 128;
/// Workgroup memory of a workgroup.
const ROOM: usize = 48 << 10;
/// Bytes of the bins of a choice, which later have sums, and of small arrays.
const BINS: usize = 8192;
const SMALL: usize = 1024;

/// The launch shape of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LaunchShape {
    threads: usize,
    /// Partial sums of an output: the lanes of `matvec.wgsl`.
    chains: usize,
    splits: usize,
    /// Threads that have the words of a line, and groups of them that divide the lines of a block.
    width: usize,
    groups: usize,
}

impl InputMajor {
    fn launch(&self, capabilities: &Capabilities) -> LaunchShape {
        let threads = self.threads.min(capabilities.workgroup_threads as usize);
        let chains = (capabilities.subgroup as usize).clamp(1, threads.min(64));
        let lines = self.lines();
        let fields = lines.fields();
        let width = lines.line.min(chains);
        let fixed = capabilities.subgroup == capabilities.widest_subgroup;
        let groups = if fields.blocks() && fixed && chains == 2 * width { 2 } else { 1 };
        let (out, teams) = (width * fields.per_word, threads / (width * groups));
        let parts = lines.line / width;
        let tiles: usize = self.sides.iter().map(|side| side.lines.slabs() * parts).sum();
        let wanted = (GROUPS.div_ceil(tiles)).min(chains.div_ceil(teams));
        let wanted = if self.on_grid { wanted } else { 1 };
        let bytes = |splits: usize| self.bytes(chains, splits, out);
        let room = (capabilities.workgroup_bytes as usize).min(ROOM);
        let mut splits = 1;
        while splits < chains && (splits < wanted || bytes(splits) > room) {
            splits *= 2;
        }
        LaunchShape { threads, chains, splits, width, groups }
    }

    fn lines(&self) -> Lines {
        const NONE: Lines = Lines { dtype: pelton_quant::DType::F32, rows: 1, cols: 4, line: 32 };
        self.sides.first().map_or(NONE, |side| side.lines)
    }

    /// Bytes of workgroup memory with K splits.
    fn bytes(&self, chains: usize, splits: usize, out: usize) -> usize {
        let lines = self.lines();
        let layout = Layout::of(lines.dtype);
        // entries, codes, scale, sums and mask of a unit; or its inputs, activations and mask
        let per_unit =
            if lines.fields().blocks() { 128 + 32 + 4 + 8 + 4 } else { layout.unit * 8 + 4 };
        let own = chains / splits;
        let units = layout.units(lines.cols).div_ceil(chains) * own;
        SMALL + BINS.max(4 * own * out) + units * per_unit
    }

    /// Whether the GPU has room for the choice of the inputs.
    pub(crate) fn fits(&self, capabilities: &Capabilities) -> bool {
        let LaunchShape { chains, splits, width, .. } = self.launch(capabilities);
        let out = width * self.lines().fields().per_word;
        self.bytes(chains, splits, out) <= capabilities.workgroup_bytes as usize
    }

    /// Workgroups of a row.
    pub(crate) fn groups(&self, capabilities: &Capabilities) -> u32 {
        let shape = self.launch(capabilities);
        self.sides.iter().map(|side| self.tiles(&shape, side) as u32).sum()
    }

    fn tiles(&self, shape: &LaunchShape, side: &Side) -> usize {
        let parts = side.lines.line / shape.width;
        side.lines.slabs() * parts * if self.on_grid { shape.splits } else { 1 }
    }

    /// The slots of a row in which workgroups exchange sums: those of the levels of each side's tree,
    /// then those of gate and up.
    pub(crate) fn slots(&self, capabilities: &Capabilities) -> usize {
        let splits = if self.on_grid { self.launch(capabilities).splits } else { 1 };
        let of_splits: usize = self.sides.iter().map(|side| side.lines.rows * (splits - 1)).sum();
        of_splits + if self.glu.is_some() { self.lines().rows } else { 0 }
    }

    /// The bindings: x, the numbers of live inputs, the slots if there are any, the norm's weight, the
    /// other buffer for the result, and of each side the matrix, the norms of its columns, its y (but
    /// for that of up) and the bias.
    pub(crate) fn bindings(&self, capabilities: &Capabilities) -> Vec<Access> {
        use Access::{Read, ReadWrite};
        let mut all = vec![Read, Read];
        all.extend((self.slots(capabilities) > 0).then_some(ReadWrite));
        all.extend(self.norm.map(|_| Read));
        all.extend(self.apart.then_some(ReadWrite));
        for (i, side) in self.sides.iter().enumerate() {
            all.extend([Read, Read]);
            all.extend((self.glu.is_none() || i == 0).then_some(ReadWrite));
            all.extend(side.bias.then_some(Read));
        }
        all
    }

    /// The WGSL of the kernel; `slots` is the number of slots of a row in the buffer.
    pub(crate) fn source(
        &self,
        capabilities: &Capabilities,
        slots: usize,
    ) -> Result<String, Error> {
        let shape = self.launch(capabilities);
        let LaunchShape { threads, chains, splits, width, groups } = shape;
        let lines = self.lines();
        let fields = lines.fields();
        let layout = Layout::of(lines.dtype);
        let units = layout.units(lines.cols);
        let lanes = (capabilities.subgroup as usize).clamp(1, threads);
        // as in matvec.wgsl
        let share = 1 << lanes.clamp(2, 8).ilog2();
        let loads = (units * share).div_ceil(threads);
        let together = loads.div_ceil(loads.div_ceil(share));
        let (mut first, mut slot) = (0, 0);
        let mut sides: Vec<Value> = Vec::with_capacity(self.sides.len());
        let mut sections: Vec<Value> = Vec::with_capacity(self.sides.len());
        for side in &self.sides {
            let rows = side.lines.rows;
            sides.push(context! { first, rows, slots => slot, bias => side.bias });
            sections.push(section(&side.lines));
            first += self.tiles(&shape, side);
            slot += rows * if self.on_grid { splits - 1 } else { 0 };
        }
        template::render(
            "input_major.wgsl",
            context! {
                k => lines.cols,
                chunk => units,
                own_chains => chains / splits,
                steps => units.div_ceil(chains),
                line => lines.line,
                per_word => fields.per_word,
                keep => fields.per_word / groups,
                d_fields => fields.d_fields,
                d_units => (fields.d_inputs / 32).max(1),
                sub_bytes => fields.sub,
                upper_bits => fields.upper_bits,
                halves => if fields.upper_bits == 2 { 2 } else { 1 },
                turns => (lines.cols / 4).div_ceil(threads),
                norm => self.norm.is_some(),
                eps => self.norm.map_or_else(String::new, template::float),
                add => self.add,
                apart => self.apart,
                glu => self.glu.is_some(),
                gating => self.glu.as_ref().map(template::gating),
                element => "f32",
                lives_at => self.lives_at[0],
                lives_step => self.lives_at[1],
                only_below => self.only_below,
                on_grid => self.on_grid,
                exchanges => self.slots(capabilities) > 0,
                glu_slots => slot,
                subgroups => threads.div_ceil(lanes),
                units, threads, chains, splits, width, groups, sides, sections, slots, share, together,
                ..template::format(&layout)
            },
        )
    }

    pub(crate) fn label(&self) -> String {
        let rows: usize = self.sides.iter().map(|side| side.lines.rows).sum();
        format!("input_major {} {rows}x{}", self.lines().dtype, self.lines().cols)
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

    /// The bindings: the matrix and the planes.
    pub(crate) fn bindings() -> Vec<Access> {
        vec![Access::Read, Access::ReadWrite]
    }

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
    pub(crate) fn source(&self) -> Result<String, Error> {
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
    /// The bindings: the other buffer, the numbers of live inputs, and y.
    pub(crate) fn bindings() -> Vec<Access> {
        vec![Access::Read, Access::Read, Access::ReadWrite]
    }

    /// Workgroups of a row.
    pub(crate) fn groups(&self) -> u32 {
        self.width.div_ceil(64) as u32
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self) -> Result<String, Error> {
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
pub(crate) fn sources() -> Vec<(String, String)> {
    use pelton_graph::Activation;
    use pelton_quant::DType;

    let mut all = Vec::new();
    for dtype in DType::ALL {
        let Some(lines) = Lines::new(dtype, 70, 1280) else { continue };
        for subgroup in [8, 32, 64] {
            let capabilities = crate::testing::capabilities(subgroup);
            let side = |bias| Side { lines, bias };
            let plain = InputMajor {
                sides: vec![side(false)],
                norm: None,
                add: true,
                apart: false,
                glu: None,
                lives_at: [0, 1],
                only_below: false,
                on_grid: true,
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
                InputMajor { on_grid: false, apart: true, only_below: true, ..plain.clone() },
                plain,
            ] {
                let slots = product.slots(&capabilities);
                let source = product.source(&capabilities, slots).unwrap();
                all.push((format!("{product:?}"), source));
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
