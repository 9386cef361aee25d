//! Products of rows below 1 with matrices in input-major order: partial sums over the live inputs
//! (`live_product.wgsl`), and the results (`live_sums.wgsl`). No workgroup knows more than its own
//! slice of inputs, and no step uses atomics on floats, so results repeat bit for bit.

use minijinja::{Value, context};
use pelton_graph::{Error, Gating, LOWER_HALF};

use crate::{
    device::{Capabilities, KernelSource},
    kernels::{attention::SlicedHeads, template},
    weights::{InputMajorLayout, LANES, OUTPUTS, WORDS, places},
};

/// Threads that multiply a slice, and groups of them that take lines in turn. A workgroup has so
/// many, or those of several teams.
pub(crate) const TEAM: usize = 256;
const GROUPS: usize = TEAM / LANES;
/// Inputs of a slice, at least and at most: a thread has four.
const LEAST_SLICE: usize = 64;
const SLICE: usize = 1024;
/// Workgroups that a large GPU runs at once.
const AT_ONCE: usize = 264;
/// Inputs whose lines take as long as the other work of a workgroup.
const OVERHEAD: usize = 128;
/// Quads of lines of a block that a thread loads before it multiplies them.
const UNROLL: usize = 2;
/// Rows for which slices have workgroups of their own.
pub(crate) const GRID_ROWS: usize = 8;
/// Bytes of small arrays in workgroup memory.
const SMALL: usize = 512;
/// Outputs whose results a workgroup makes, at least: their partial sums of a slice
/// are one line of memory.
const LEAST_OUTPUTS: usize = 32;

/// A matrix of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Side {
    /// The matrix.
    pub(crate) lines: InputMajorLayout,
    /// Whether a bias is added.
    pub(crate) bias: bool,
    /// The first of the rows' words in the buffer of live inputs, less the place of the product. It
    /// may be negative, and wraps.
    pub(crate) lives_at: u32,
}

/// Products of rows with one to three matrices that have the same number of inputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LiveProduct {
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
    /// The product whose partial sums are a gate and its value, if their gated product is x.
    pub(crate) gated: Option<GatedSums>,
    /// The first of the rows' words in the buffer of live inputs, for the first matrix of all, and
    /// the step from row to row.
    pub(crate) rows_at: [usize; 2],
    /// Whether full rows are among the rows.
    pub(crate) mixed: bool,
    /// Whether slices have workgroups of their own, for up to [`GRID_ROWS`] rows. The bits of the
    /// results do not depend on it.
    pub(crate) on_grid: bool,
    /// Teams of [`TEAM`] threads in a workgroup, each with a slice of its own. The bits do not
    /// depend on them. More than one needs `on_grid`.
    pub(crate) teams: usize,
    /// Whether the kernels are phases of a persistent kernel.
    pub(crate) is_phase: bool,
}

/// The partial sums `[rows, splits, len]` of a gate and its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GatedSums {
    /// The gated product.
    pub(crate) gating: Gating,
    /// Slices of the product.
    pub(crate) splits: usize,
    /// Elements of a slice.
    pub(crate) len: usize,
    /// The first of the value's elements.
    pub(crate) up: usize,
}

impl LiveProduct {
    fn lines(&self) -> InputMajorLayout {
        const NONE: InputMajorLayout = InputMajorLayout { rows: 1, cols: 32 };
        self.sides.first().map_or(NONE, |side| side.lines)
    }

    /// Tiles of all matrices.
    fn tiles(&self) -> usize {
        self.sides.iter().map(|side| side.lines.tiles()).sum()
    }

    /// Groups that share a block of a slice.
    fn shared(slice: usize) -> usize {
        (32 * GROUPS / slice).max(1)
    }

    /// Inputs of a slice, whole blocks: so many that a large GPU takes the least time.
    fn slice(&self) -> usize {
        let lines = self.lines();
        let time = |slice: &usize| {
            let items = lines.cols.div_ceil(*slice) * self.tiles();
            // groups have whole blocks, or equal parts of one
            let (shared, blocks) = (Self::shared(*slice), slice / 32);
            let each = blocks.div_ceil((GROUPS / shared).max(1));
            items.div_ceil(AT_ONCE) * (32 * GROUPS * each / shared + OVERHEAD)
        };
        (LEAST_SLICE / 32..=SLICE / 32)
            .rev()
            .map(|blocks| 32 * blocks)
            .min_by_key(time)
            .unwrap_or(SLICE)
    }

    fn splits(&self) -> usize {
        self.lines().cols.div_ceil(self.slice())
    }

    /// Splits whose sums are in the buffer of partial sums.
    fn written_splits(&self) -> usize {
        if self.on_grid { self.splits() } else { 1 }
    }

    /// The partial sums of a gate and its value, for the product that reads them.
    pub(crate) fn gated_sums(&self) -> Option<GatedSums> {
        Some(GatedSums {
            gating: self.glu?,
            splits: self.written_splits(),
            len: self.tiles() * OUTPUTS,
            up: self.sides.first()?.lines.tiles() * OUTPUTS,
        })
    }

    /// The partial sums of queries, keys and values, for attention that adds them.
    pub(crate) fn sliced_heads(&self) -> Option<SlicedHeads> {
        let mut first = 0;
        let sides = self.sides.iter().map(|side| {
            first += side.lines.tiles() * OUTPUTS;
            (first - side.lines.tiles() * OUTPUTS, side.bias)
        });
        let sides = sides.collect::<Vec<_>>().try_into().ok()?;
        Some(SlicedHeads { splits: self.written_splits(), len: self.tiles() * OUTPUTS, sides })
    }

    /// Elements of the partial sums of a row.
    pub(crate) fn partial_len(&self) -> usize {
        self.tiles() * OUTPUTS * self.written_splits()
    }

    fn written(&self) -> &[Side] {
        &self.sides[..if self.glu.is_some() { 1 } else { self.sides.len() }]
    }

    /// Whether the GPU has the threads and the workgroup memory for it.
    pub(crate) fn fits(&self, capabilities: &Capabilities) -> bool {
        let slice = self.slice();
        let (sums, listed) = (4 * GROUPS * OUTPUTS, 4 * slice + slice / 4);
        capabilities.workgroup_threads as usize >= TEAM
            && sums + listed + SMALL <= capabilities.workgroup_bytes as usize
    }

    /// The matrices, with their first tiles and the words of a lane at which their sections begin.
    fn contexts(&self) -> Vec<Value> {
        let (mut first, loaded) = (0, 4 * WORDS);
        let lines: Vec<InputMajorLayout> = self.sides.iter().map(|side| side.lines).collect();
        let context = |(side, place): (&Side, usize)| {
            let sections = side.lines.sections();
            let [lines, lower, scales, norms] =
                [0, sections.lower, sections.scales, sections.norms]
                    .map(|bytes| (place + bytes) / loaded);
            let (rows, bias, lives_at) = (side.lines.rows, side.bias, side.lives_at);
            first += side.lines.tiles();
            context! { first => first - side.lines.tiles(), rows, bias, lives_at, lines, lower, scales, norms }
        };
        self.sides.iter().zip(places(&lines).0).map(context).collect()
    }

    /// Workgroups of the partial sums of a row.
    pub(crate) fn product_groups(&self) -> u32 {
        (self.tiles() * self.written_splits()).div_ceil(self.teams) as u32
    }

    /// The WGSL of the partial sums.
    pub(crate) fn product_source(
        &self,
        capabilities: &Capabilities,
    ) -> Result<KernelSource, Error> {
        let (lines, slice) = (self.lines(), self.slice());
        let lanes = (capabilities.subgroup as usize).clamp(1, TEAM);
        template::render(
            "live_product.wgsl",
            context! {
                k => lines.cols,
                splits => self.splits(),
                tiles => self.tiles(),
                outputs => OUTPUTS,
                threads => TEAM,
                teams => self.teams,
                waits => self.is_phase,
                groups => GROUPS,
                gated => self.gated.map(|of| context! {
                    gating => template::gating(&of.gating),
                    splits => of.splits,
                    len => of.len,
                    up => of.up,
                }),
                mixed => self.mixed,
                // as in matvec.wgsl
                share => 1 << lanes.clamp(2, 8).ilog2(),
                cols_rest => !lines.cols.is_multiple_of(slice),
                shared => Self::shared(slice),
                unroll => UNROLL,
                of_lower => template::float(1.0 / LOWER_HALF),
                norm => self.norm.is_some(),
                eps => self.norm.map_or_else(String::new, template::float),
                subgroups => TEAM.div_ceil(lanes),
                on_grid => self.on_grid,
                lives_step => self.rows_at[1],
                sides => self.contexts(),
                slice,
            },
        )
    }

    /// Workgroups of the results of a row.
    pub(crate) fn sum_groups(&self) -> u32 {
        let tiles: usize = self.written().iter().map(|side| side.lines.tiles()).sum();
        (tiles * OUTPUTS).div_ceil(self.own_outputs()) as u32
    }

    /// Outputs whose results a workgroup makes: so many that a thread loads one vector of
    /// partial sums, or few.
    fn own_outputs(&self) -> usize {
        let most = OUTPUTS.min(TEAM);
        let even = 4 * TEAM * self.teams / self.written_splits();
        (1 << even.max(1).ilog2()).clamp(LEAST_OUTPUTS, most)
    }

    /// The WGSL of the results.
    pub(crate) fn sum_source(&self) -> Result<KernelSource, Error> {
        let sides = self.contexts();
        template::render(
            "live_sums.wgsl",
            context! {
                splits => self.written_splits(),
                tiles => self.tiles(),
                outputs => OUTPUTS,
                threads => TEAM * self.teams,
                own => self.own_outputs(),
                mixed => self.mixed,
                add => self.add,
                waits => self.is_phase,
                apart => self.apart,
                glu => self.glu.is_some(),
                gating => self.glu.as_ref().map(template::gating),
                element => "f32",
                rows_at => self.rows_at[0],
                lives_step => self.rows_at[1],
                written => &sides[..self.written().len()],
                sides,
            },
        )
    }

    pub(crate) fn label(&self) -> String {
        let rows: usize = self.sides.iter().map(|side| side.lines.rows).sum();
        format!("live Q8_0 {rows}x{}", self.lines().cols)
    }
}

/// A copy of the rows `[width]` below 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowsBelow {
    /// Elements of a row.
    pub(crate) width: usize,
    /// The first of the rows' words in the buffer of live inputs, and the step from row to row.
    pub(crate) lives_at: [usize; 2],
}

impl RowsBelow {
    /// Workgroups of a row.
    pub(crate) fn groups(&self) -> u32 {
        self.width.div_ceil(64) as u32
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self) -> Result<KernelSource, Error> {
        let [lives_at, lives_step] = self.lives_at;
        template::render("rows_below.wgsl", context! { width => self.width, lives_at, lives_step })
    }
}

/// Kernels for the test of translations.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    let mut all = Vec::new();
    for subgroup in [4, 8, 32, 64] {
        let capabilities = crate::testing::capabilities(subgroup);
        for product in tests::products(InputMajorLayout { rows: 1040, cols: 1280 }) {
            for source in [product.product_source(&capabilities), product.sum_source()] {
                all.push((format!("{product:?}"), source.unwrap()));
            }
        }
    }
    let rows = RowsBelow { width: 70, lives_at: [3, 4] };
    all.push((format!("{rows:?}"), rows.source().unwrap()));
    all
}

#[cfg(test)]
mod tests;
