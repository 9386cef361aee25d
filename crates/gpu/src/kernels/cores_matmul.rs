//! Matrix products for many rows of activations, on matrix cores.
//!
//! Activations are normed and rounded to f16 once. The product decodes weights into workgroup
//! memory and multiplies tiles with f32 sums. The edge of the matrices (16, or 8 as Apple has them)
//! and the width of subgroups are parameters. Where the width varies, workgroups have threads for
//! the widest subgroups, and some of them compute nothing if subgroups are narrower.

use minijinja::{Value, context};
use pelton_graph::{Activation, Error};

use crate::{
    device::{Capabilities, Device, Kernel, KernelSource},
    kernels::{experts::Experts, matvec::FusedMatrix, template, to_f16::padded},
    weights::Layout,
};

/// A product `y[r][n] = Σ_k W[n][k] · a[r][k]` of prepared activations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CoresMatmul {
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
    /// Whether biases are added, one for each y.
    pub(crate) bias: bool,
    /// The function of the result, of a whole sum that is not added.
    pub(crate) activation: Option<Activation>,
    /// Whether the result is added to what is there.
    pub(crate) add: bool,
    /// Where the number of rows of activations is among the numbers of a pass.
    pub(crate) count_at: usize,
    /// K splits, whose partial sums are written one after the other.
    pub(crate) splits: usize,
    /// Rows of the partial sums of one split.
    pub(crate) slab_rows: usize,
    /// The matrices of this part, if there are several, each of `rows` rows.
    pub(crate) experts: Option<Experts>,
    /// The second and third matrix of a fused product of the same activations, whose outputs come
    /// after those of the first: all in blocks, or all of one format.
    pub(crate) fused_with: [Option<FusedMatrix>; 2],
    /// Whether each matrix of a fused product has a y of its own.
    pub(crate) own_y: bool,
    /// Whether results go to y without a detour: y has room for as many rows as [`ROOM`] divides,
    /// and may be overwritten there.
    pub(crate) straight: bool,
}

/// The work split of a product: the tile of y of a workgroup, and the patch of each subgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows of activations of a workgroup.
    pub batch: usize,
    /// Rows of the matrix of a workgroup.
    pub rows: usize,
    /// Rows of activations of a subgroup.
    pub patch_batch: usize,
    /// Rows of the matrix of a subgroup.
    pub patch_rows: usize,
    /// Numbers of a row that are in workgroup memory at a time.
    pub step: usize,
    /// Edge of what the matrix cores multiply: 16, or 8 on Apple.
    pub core: usize,
    /// Halves in an element of workgroup memory: 4, or 1 where cores read single halves alone
    /// (Apple).
    pub wide: usize,
    /// The least and the greatest number of threads of a subgroup. Where they differ, there are
    /// threads for the greatest number, and with narrower subgroups some of them compute nothing.
    pub lanes: [usize; 2],
}

/// Rows of y, and outputs of a matrix, are stored by as many at a time.
pub(crate) const ROOM: usize = 16;

/// The most sums of a thread: with more of them registers may not suffice.
const SUMS: usize = 64;

/// Workgroups that keep most of a large device busy: more of them are not worth decoding weights
/// more often.
const GROUPS: usize = 96;

impl Tile {
    /// The tiles to choose from, the largest first: it decodes a weight least often.
    pub const ALL: [Self; 4] = [
        Self::of([128, 128], [64, 32], 64),
        Self::of([96, 128], [48, 32], 64),
        Self::of([128, 64], [64, 32], 64),
        Self::of([64, 64], [32, 32], 64),
    ];

    /// A tile and its patches (activations, then the matrix) for cores of 16.
    pub const fn of(tile: [usize; 2], patch: [usize; 2], step: usize) -> Self {
        Self {
            batch: tile[0],
            rows: tile[1],
            patch_batch: patch[0],
            patch_rows: patch[1],
            step,
            core: 16,
            wide: 4,
            lanes: [32, 32],
        }
    }

    /// The tile for the matrix cores and the subgroups of a GPU: with smaller patches where a
    /// thread would have too many sums.
    pub(crate) fn on(self, capabilities: &Capabilities) -> Self {
        let core = capabilities.core;
        let (wide, lanes) = match core {
            // those of Apple, whose subgroups have 32 threads though Metal reports a range
            8 => (1, [32, 32]),
            _ => {
                let widths = [capabilities.subgroup, capabilities.widest_subgroup];
                (self.wide, widths.map(|width| width as usize))
            }
        };
        let fits = |patch: &usize| {
            self.batch.is_multiple_of(*patch) && patch * self.patch_rows <= SUMS * lanes[0]
        };
        let mut patches = (1..=self.patch_batch / core).rev().map(|n| n * core);
        let patch_batch = patches.find(fits).unwrap_or(core);
        Self { core, wide, lanes, patch_batch, ..self }
    }

    /// Threads of a workgroup.
    const fn threads(&self) -> usize {
        self.subgroups() * self.lanes[1]
    }

    /// Subgroups of a workgroup that compute a patch each.
    const fn subgroups(&self) -> usize {
        (self.batch / self.patch_batch) * (self.rows / self.patch_rows)
    }

    /// Bytes that a workgroup shares.
    const fn bytes(&self, straight: bool) -> usize {
        let staged = if straight { 0 } else { self.core * (self.core + 4) * 4 };
        (self.batch + self.rows) * (self.step + 8) * 2 + self.subgroups() * staged
    }

    /// Workgroups for `count` rows of activations and a matrix of `rows`.
    pub(crate) const fn groups(&self, count: usize, rows: usize) -> [u32; 3] {
        [count.div_ceil(self.batch) as u32, rows.div_ceil(self.rows) as u32, 1]
    }
}

/// K splits of a product of prompt rows, the same for all passes of up to `rows` rows: a row's sum
/// has one order.
pub(crate) fn prompt_splits(k: usize, outputs: usize, rows: usize) -> usize {
    /// Steps of K that a split has, at least.
    const STEPS: usize = 8;
    /// Workgroups of a pass of 128 rows that hide the latency of each other on a large GPU.
    const ENOUGH: usize = 512;
    /// More splits than this were no faster on an H200, and make more partial sums.
    const MOST: usize = 4;
    /// The most bytes of the partial sums.
    const BYTES: usize = 256 << 20;
    let [.., tile] = Tile::ALL;
    let [across, down, _] = tile.groups(128, outputs);
    let fitting = BYTES / (4 * rows * outputs).max(1);
    let most = (padded(k) / tile.step / STEPS).min(fitting).clamp(1, MOST);
    (ENOUGH / (across * down) as usize).clamp(1, most)
}

/// The tile of decoding passes, of up to 64 rows a tile.
pub(crate) const DECODE: Tile = Tile::ALL[3];
/// The tile of decoding passes of up to 32 rows.
pub(crate) const DECODE_FEW: Tile = Tile::of([32, 64], [32, 16], 64);

/// The tile of such passes for products of many outputs, which fill a GPU without K splits.
const DECODE_WIDE: Tile = Tile::of([32, 128], [32, 32], 64);

/// The tile of decoding passes of up to 32 rows, for a number of outputs.
pub(crate) fn decode_few(outputs: usize) -> Tile {
    /// Workgroups of the wide tile that fill a large GPU.
    const ENOUGH: usize = 132;
    match outputs / DECODE_WIDE.rows >= ENOUGH {
        true => DECODE_WIDE,
        false => DECODE_FEW,
    }
}

/// K splits of a decoding pass with rows of `k` elements, for `outputs` outputs: enough workgroups
/// of one tile of rows to hide latency.
pub(crate) fn decode_splits(tile: &Tile, k: usize, outputs: usize) -> usize {
    /// Steps of K that a split has, at least.
    const STEPS: usize = 8;
    // one for each multiprocessor of a large GPU, or two of the smaller tile: more of them were
    // slower on an H200
    let small = tile.batch < DECODE.batch && tile.rows < DECODE_WIDE.rows;
    let enough: usize = if small { 264 } else { 132 };
    let most = (padded(k) / tile.step / STEPS).max(1);
    enough.div_ceil(outputs.div_ceil(tile.rows)).clamp(1, most)
}

impl CoresMatmul {
    /// The tile for `count` rows of activations: the largest that leaves enough workgroups and
    /// little of itself empty.
    ///
    /// All tiles sum in the same order, so what a row gets does not depend on the choice.
    pub(crate) fn tile(&self, capabilities: &Capabilities, count: usize) -> Tile {
        let tiles = Tile::ALL.map(|tile| tile.on(capabilities));
        let [.., smallest] = tiles;
        let fits = |tile: &Tile| {
            let [across, down, _] = tile.groups(count, self.tiled_rows(tile));
            let padding = count.next_multiple_of(tile.batch) - count;
            tile.bytes(self.straight) <= capabilities.workgroup_bytes as usize
                && tile.threads() <= capabilities.workgroup_threads as usize
                && 4 * padding < count
                && (across * down) as usize * self.splits >= GROUPS
        };
        tiles.into_iter().find(fits).unwrap_or(smallest)
    }

    /// The tiles for passes of up to `most` rows of activations, each with its first and last
    /// number of rows.
    pub(crate) fn tiles(
        &self,
        capabilities: &Capabilities,
        most: usize,
    ) -> Vec<(usize, usize, Tile)> {
        let [.., smallest] = Tile::ALL;
        let mut all: Vec<(usize, usize, Tile)> = Vec::new();
        for to in (1..=most.div_ceil(smallest.batch)).map(|n| n * smallest.batch) {
            let tile = self.tile(capabilities, to);
            match all.last_mut() {
                Some((_, last, same)) if *same == tile => *last = to,
                Some(&mut (_, last, _)) => all.push((last + 1, to, tile)),
                None => all.push((0, to, tile)),
            }
        }
        all
    }

    /// The matrices with outputs of their own.
    fn parts(&self) -> impl Iterator<Item = FusedMatrix> {
        let first = FusedMatrix { layout: self.layout, rows: self.rows };
        [first].into_iter().chain(self.fused_with.into_iter().flatten())
    }

    /// The product with results that go to y without a detour, where `room` rows of y allow it.
    pub(crate) fn straight_to(self, room: usize) -> Self {
        let whole = self.parts().all(|part| part.rows.is_multiple_of(ROOM));
        let plain = !self.bias && self.activation.is_none() && !self.own_y;
        let aligned = self.stride.is_multiple_of(4) && self.offset.is_multiple_of(4);
        let straight = whole && plain && aligned && room.is_multiple_of(ROOM);
        Self { straight: straight && self.experts.is_none(), ..self }
    }

    /// Rows of the matrices, each filled up to whole tiles.
    pub(crate) fn tiled_rows(&self, tile: &Tile) -> usize {
        self.parts().map(|part| part.rows.next_multiple_of(tile.rows)).sum()
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self, tile: &Tile) -> Result<KernelSource, Error> {
        let layouts: Vec<Layout> = self.parts().map(|part| part.layout).collect();
        let matrices = template::matrices(&layouts);
        let mut at = (0, self.offset);
        let parts: Vec<Value> = self
            .parts()
            .map(|FusedMatrix { rows, .. }| {
                let (first, offset) = at;
                at = (first + rows.div_ceil(tile.rows), offset + rows);
                context! { rows, first, offset }
            })
            .collect();
        // each format with the condition that a workgroup's matrix has it
        let kinds: Vec<Value> = layouts
            .iter()
            .enumerate()
            .filter(|(i, layout)| layouts.iter().position(|other| other == *layout) == Some(*i))
            .map(|(i, layout)| {
                let same = layouts.iter().enumerate().filter(|(_, other)| *other == layout);
                let when: Vec<String> = same.map(|(j, _)| format!("part.index == {j}u")).collect();
                let name = if i == 0 { String::new() } else { i.to_string() };
                context! { name, when => when.join(" || ") }
            })
            .collect();
        template::render(
            "cores_matmul.wgsl",
            context! {
                parts, matrices, kinds,
                offset => self.offset,
                y_stride => self.stride,
                units => self.layout.units(self.k),
                padded => padded(self.k),
                bias => self.bias,
                activation => self.activation.map(Activation::name),
                add => self.add,
                count_at => self.count_at,
                splits => self.splits,
                own_y => self.own_y && self.fused_with[0].is_some(),
                split_steps => (padded(self.k) / tile.step).div_ceil(self.splits),
                slab_rows => self.slab_rows,
                experts => self.experts.map(|experts| experts.parameters(self.rows)),
                batch => tile.batch,
                rows => tile.rows,
                patch_batch => tile.patch_batch,
                patch_rows => tile.patch_rows,
                step => tile.step,
                straight => self.straight,
                core => tile.core,
                wide => tile.wide,
                subgroups => tile.subgroups(),
                threads => tile.threads(),
                lanes => tile.lanes[1],
                varying => tile.lanes[0] != tile.lanes[1],
                ..template::format(&self.layout)
            },
        )
    }

    /// Compiles the kernel for a tile, on a device with matrix cores.
    pub(crate) fn kernel(&self, device: &Device, tile: &Tile) -> Result<Kernel, Error> {
        let label = format!(
            "matmul {} {}x{} {}x{}",
            self.layout.dtype, self.rows, self.k, tile.batch, tile.rows
        );
        device.kernel(&label, &self.source(tile)?)
    }
}

/// Kernels for the test of translations.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    use pelton_quant::DType;
    // Apple, and AMD and Intel with subgroups of fixed and of varying width
    let others = [(8, 32, 32), (16, 64, 64), (16, 32, 64), (16, 16, 16), (16, 8, 32)];
    let others = others.map(|(core, subgroup, widest_subgroup)| {
        DECODE.on(&Capabilities { core, widest_subgroup, ..crate::testing::capabilities(subgroup) })
    });
    let mut all = Vec::new();
    let part = |dtype| Some(FusedMatrix { layout: Layout::of(dtype), rows: 100 });
    let fused = CoresMatmul {
        layout: Layout::of(DType::Q4_K),
        k: 768,
        rows: 70,
        offset: 0,
        stride: 270,
        bias: false,
        activation: None,
        add: false,
        count_at: 0,
        splits: 2,
        slab_rows: 64,
        experts: None,
        own_y: false,
        straight: false,
        fused_with: [part(DType::Q4_K), part(DType::Q6_K)],
    };
    all.push((format!("{fused:?}"), fused.source(&DECODE).unwrap()));
    for add in [false, true] {
        let own = CoresMatmul { own_y: true, bias: !add, add, splits: 1, ..fused };
        all.push((format!("{own:?}"), own.source(&Tile::ALL[0]).unwrap()));
    }
    for add in [false, true] {
        let tile = Tile::ALL[0];
        let straight =
            CoresMatmul { rows: 80, fused_with: [None; 2], stride: 96, straight: true, ..fused };
        all.push((format!("{straight:?} {tile:?}"), straight.source(&tile).unwrap()));
        let layout = Layout::of(DType::F16);
        let floats = CoresMatmul { layout, splits: 1, add, ..straight };
        all.push((format!("{floats:?} {tile:?}"), floats.source(&tile).unwrap()));
    }
    for dtype in DType::ALL {
        for tile in Tile::ALL.into_iter().chain([DECODE_FEW]).chain(others) {
            for (bias, add) in [(false, false), (true, false), (false, true)] {
                if others.contains(&tile) && (bias || add) {
                    continue;
                }
                let layout = Layout::of(dtype);
                let m = CoresMatmul {
                    layout,
                    k: 768,
                    rows: 70,
                    offset: 10,
                    stride: 90,
                    bias,
                    activation: bias.then_some(Activation::GeluErf),
                    add,
                    count_at: 0,
                    splits: 1 + usize::from(add),
                    slab_rows: 64,
                    experts: None,
                    fused_with: [None; 2],
                    own_y: false,
                    straight: false,
                };
                let label = format!("matmul {dtype} {tile:?} bias {bias} add {add}");
                all.push((label, m.source(&tile).unwrap()));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
