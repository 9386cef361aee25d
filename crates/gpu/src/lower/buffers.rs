//! The buffers of a pass in addition to those of the plan: inputs, KV caches and scratch memory.

use std::num::NonZeroU64;

use pelton_graph::{
    Effort, EffortCurve, Error, Limits, Linear, NormKind, Op, Plan, RECENT, Row, Rows, Step,
    WeightId, WeightKind, pages_for,
};
use pelton_quant::DType;

use crate::{
    device::{Capabilities, Device, counted},
    kernels::{
        attention::Attention,
        cores_matmul::{DECODE, ROOM, decode_few, decode_splits, prompt_splits},
        experts::Sort,
        recurrent::GatedDelta,
        scan::SelectiveScan,
        tiled_matmul::{FEW_ROWS, ThreadTile, splits},
        to_f16::padded,
        to_q8::UNIT,
    },
    lower::live_sizes as live,
    weights::groups_of,
};

/// Offsets of bindings in a buffer are multiples of this on every GPU.
const ALIGNMENT: usize = 256;

/// The inputs of a pass, which the host writes.
#[derive(Debug)]
pub(crate) struct Inputs<B = wgpu::Buffer> {
    /// Row counts `[2]` u32: all rows, and the selected ones.
    pub(crate) pass: B,
    /// Rows `[rows, 4]` u32: token (or [`SAMPLED`]), position, slot, and the number of positions of
    /// the sequence if it is wholly in the pass.
    pub(crate) rows: B,
    /// The places of rows `[rows, 8]` u32, if the plan reads them. First are the distances of the
    /// three coordinates from the position. Then comes one more than the index of the embedding of
    /// a row without a token. Last are the positions of its group before the row and after it. They
    /// hold in all repeats.
    pub(crate) row_places: B,
    /// The embeddings `[rows, slices, hidden]` f32 of rows without a token, if rows can have some.
    pub(crate) embeddings: B,
    /// The indices of the selected rows `[wants]` u32.
    pub(crate) selected: B,
    /// Page tables `[groups, slots, table]` u32, each group at an aligned offset.
    tables: B,
    /// Entries of one page table.
    pub(crate) table: usize,
    slots: usize,
    /// The tiles of attention in prompts `[rows, 2]` u32: first row and number of rows.
    pub(crate) tiles: B,
    /// The indices of the rows by sequence `[rows]` u32, if the plan has recurrent states.
    pub(crate) order: B,
    /// The sequences `[rows, 2]` u32: the first of their rows in `order`, and their number.
    pub(crate) sequences: B,
    /// The ids and the weights of the adapters of each slot `[slots, 2, used]` f32.
    pub(crate) adapters: B,
    /// The words `[rows, 2, matrices]` u32 of each row, and of each selected row, for each marked
    /// matrix. A row below 1 has the highest bit, and the least score of live inputs, by its bits.
    pub(crate) lives: B,
    /// The place of each marked matrix among the words of a row, u32, each at an aligned offset: so
    /// the kernels of layers have one text.
    places: B,
    /// The marked matrices, and their thresholds.
    curves: Vec<(WeightId, EffortCurve)>,
    /// Whether matrices lie in input-major order too.
    has_lines: bool,
    /// The newest tokens `[slots, RECENT]` u32: that of position p at p % RECENT.
    pub(crate) recent: B,
}

/// Whether kernels of a plan read the places of rows.
pub(crate) fn reads_places(plan: &Plan) -> bool {
    plan.has_places() || plan.injected.is_some()
}

/// The token of a row whose token was sampled for its position.
pub(crate) const SAMPLED: u32 = u32::MAX;

impl Inputs {
    pub(crate) fn new(device: &Device, plan: &Plan, limits: &Limits) -> Result<Self, Error> {
        let inputs = Self::with(plan, limits, &mut |label, bytes| device.buffer(label, bytes))?;
        let adapters = plan.adapters().map_or(Ok(Vec::new()), |all| all.row(&[]))?;
        let adapters = adapters.repeat(limits.sequences);
        if !adapters.is_empty() {
            device.queue.write_buffer(&inputs.adapters, 0, bytemuck::cast_slice(&adapters));
        }
        for place in 0..inputs.curves.len() {
            let offset = (place * ALIGNMENT) as u64;
            let word = (place as u32).to_ne_bytes();
            device.queue.write_buffer(&inputs.places, offset, &word);
        }
        Ok(inputs)
    }
}

impl Inputs<()> {
    /// Bytes of the inputs.
    pub(crate) fn bytes(plan: &Plan, limits: &Limits) -> Result<u64, Error> {
        counted(|count| Self::with(plan, limits, count).map(|_| ()))
    }
}

impl<B> Inputs<B> {
    /// Makes a buffer of a label and a number of bytes for each input.
    fn with(
        plan: &Plan,
        limits: &Limits,
        buffer: &mut dyn FnMut(&str, u64) -> Result<B, Error>,
    ) -> Result<Self, Error> {
        let adapters = plan.adapters().map_or(Ok(0), |all| all.row(&[]).map(|row| row.len()))?;
        let (table, slots) = (table_pages(plan, limits), limits.sequences);
        let curves = live::curves(plan);
        let live_rows = limits.rows.max(limits.wants);
        let placed = reads_places(plan);
        let embedded = limits.rows.saturating_mul(plan.injected_width());
        Ok(Self {
            lives: buffer("live inputs", 8 * (curves.len() * live_rows) as u64)?,
            places: buffer("places of live inputs", (curves.len() * ALIGNMENT) as u64)?,
            curves,
            has_lines: plan.steps.iter().any(|step| !groups_of(plan, &step.op).is_empty()),
            pass: buffer("pass", 8)?,
            rows: buffer("rows", 16 * limits.rows as u64)?,
            row_places: buffer("places of rows", if placed { 32 * limits.rows as u64 } else { 0 })?,
            embeddings: buffer("embeddings of pictures", 4 * embedded as u64)?,
            selected: buffer("selected", 4 * limits.wants as u64)?,
            tables: buffer("tables", (limits.pages.len() * stride(table, slots)) as u64)?,
            table,
            slots,
            tiles: buffer("tiles", 8 * limits.rows as u64)?,
            order: buffer("rows by sequence", 4 * limits.rows as u64)?,
            sequences: buffer("sequences", 8 * limits.rows as u64)?,
            adapters: buffer("adapters", 4 * (adapters * slots) as u64)?,
            recent: buffer("recent tokens", 4 * (slots * RECENT) as u64)?,
        })
    }
}

impl Inputs {
    /// The place of a marked matrix among the words of a row.
    fn place(&self, id: WeightId) -> usize {
        self.curves.iter().position(|(of, _)| *of == id).unwrap_or(0)
    }

    /// The same as a binding.
    pub(crate) fn place_binding(&self, id: WeightId) -> wgpu::BufferBinding<'_> {
        wgpu::BufferBinding {
            buffer: &self.places,
            offset: (self.place(id) * ALIGNMENT) as u64,
            size: NonZeroU64::new(4),
        }
    }

    /// The first of the words of rows, for a marked matrix, and the step from row to row.
    pub(crate) fn lives_at(&self, id: WeightId, selected: bool) -> [usize; 2] {
        let [first, step] = self.first_words(selected);
        [first + self.place(id), step]
    }

    /// The same for the first marked matrix. Each of a row's words says whether it is below 1.
    pub(crate) fn first_words(&self, selected: bool) -> [usize; 2] {
        let count = self.curves.len();
        [usize::from(selected) * count, 2 * count]
    }

    /// The words of rows, and of selected rows, as kernels read them; none if no row is below 1.
    pub(crate) fn live_words(&self, all: &[Effort], selected: &[Effort]) -> Vec<u32> {
        if !all.iter().any(|level| self.is_below(*level)) {
            return Vec::new();
        }
        let mut words = Vec::with_capacity(2 * self.curves.len() * all.len());
        // most rows are alike
        let mut known: Vec<(Effort, Vec<u32>)> = Vec::new();
        for row in 0..all.len().max(selected.len()) {
            for level in [all.get(row), selected.get(row)] {
                let level = *level.unwrap_or(&Effort::FULL);
                let at = known.iter().position(|(of, _)| *of == level).unwrap_or_else(|| {
                    let of = self.curves.iter().map(|(_, curve)| self.word(curve, level));
                    known.push((level, of.collect()));
                    known.len() - 1
                });
                words.extend_from_slice(&known[at].1);
            }
        }
        words
    }

    /// Whether a row is in the kernels for rows below 1: matrices of some formats
    /// are multiplied whole.
    pub(crate) fn is_below(&self, level: Effort) -> bool {
        !level.is_full() && self.has_lines
    }

    /// The word of a row for a matrix; 0 if it runs densely.
    fn word(&self, curve: &EffortCurve, level: Effort) -> u32 {
        match self.is_below(level) {
            false => 0,
            true => curve.least(level) | 1 << 31,
        }
    }

    /// Writes the ids and the weights `[2, used]` of a slot's adapters.
    pub(crate) fn write_adapters(&self, device: &Device, slot: u32, row: &[f32]) {
        let at = u64::from(slot) * 4 * row.len() as u64;
        device.queue.write_buffer(&self.adapters, at, bytemuck::cast_slice(row));
    }

    /// The page tables of a group.
    pub(crate) fn tables(&self, group: usize) -> wgpu::BufferBinding<'_> {
        let stride = stride(self.table, self.slots) as u64;
        wgpu::BufferBinding {
            buffer: &self.tables,
            offset: group as u64 * stride,
            size: std::num::NonZero::new(stride),
        }
    }

    /// Writes entries of a slot's page table from `first` on.
    pub(crate) fn write_table(
        &self,
        device: &Device,
        group: usize,
        slot: usize,
        first: usize,
        pages: &[u32],
    ) {
        if !pages.is_empty() {
            let at = group * stride(self.table, self.slots) + 4 * (slot * self.table + first);
            device.queue.write_buffer(&self.tables, at as u64, bytemuck::cast_slice(pages));
        }
    }
}

/// The indices of rows by slot, those of a slot in their order, and the ranges of the slots in
/// them.
pub(crate) fn by_sequence(rows: &[Row]) -> (Vec<u32>, Vec<[u32; 2]>) {
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    order.sort_by_key(|&row| rows[row as usize].slot);
    let mut first = 0;
    let runs = order.chunk_by(|&a, &b| rows[a as usize].slot == rows[b as usize].slot);
    let sequences = runs
        .map(|run| {
            let sequence = [first, run.len() as u32];
            first += run.len() as u32;
            sequence
        })
        .collect();
    (order, sequences)
}

/// Bytes between the page tables of consecutive groups.
fn stride(table: usize, slots: usize) -> usize {
    (4 * table * slots).next_multiple_of(ALIGNMENT)
}

/// The KV cache of one layer: the buffers of keys and values, and the bytes of a page in each.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) keys: (wgpu::Buffer, u64),
    /// `None` if the values are a prefix of the keys.
    pub(crate) values: Option<(wgpu::Buffer, u64)>,
}

impl Cache {
    /// Its buffers, with the bytes of a page.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = &(wgpu::Buffer, u64)> {
        [&self.keys].into_iter().chain(&self.values)
    }

    /// The keys, and the buffer that has the values: their own, or that of the keys.
    pub(crate) fn bindings(&self) -> [&wgpu::Buffer; 2] {
        [&self.keys.0, self.values.as_ref().map_or(&self.keys.0, |values| &values.0)]
    }
}

/// The scratch memory in which the kernels of one step pass values to each other.
#[derive(Debug)]
pub(crate) struct Scratch<B = wgpu::Buffer> {
    /// Activations in f16, for products on matrix cores.
    pub(crate) halves: B,
    /// Activations in f32 after a norm, for products whose kernels have not got that norm.
    pub(crate) normed: B,
    /// Zeros in place of the biases that some of a step's matrices do not have.
    pub(crate) zeros: B,
    /// Activations in 8 bits `[rows, 2, units]`, 16 bytes each, for products of several rows.
    pub(crate) codes: B,
    /// Their scales and sums of codes `[rows, units]`, 8 bytes each.
    pub(crate) scales: B,
    /// The factors `[rows]` f32 of the norm before the product.
    pub(crate) factors: B,
    /// Partial sums of K splits `[splits, rows, outputs]` f32.
    pub(crate) partial: B,
    /// The up operand of a gated product.
    pub(crate) up: B,
    /// Pairs of rows and chosen experts, in the order of experts, u32.
    pub(crate) pairs: B,
    /// Tiles of them `[tiles, 4]` u32: expert, first pair, end, 0.
    pub(crate) tiles: B,
    /// KV splits of attention that a further kernel merges.
    pub(crate) splits: B,
    /// Rows below 1, while full ones are multiplied.
    pub(crate) kept: B,
    /// The partial sums of a product of rows below 1.
    pub(crate) live_sums: B,
    /// Those of a gate and its value that the next product adds.
    pub(crate) live_gates: B,
    /// The packed operands `[rows, packed_len]` of linear attention, where kernels bind few
    /// buffers.
    pub(crate) operands: B,
}

impl Scratch {
    pub(crate) fn new(
        device: &Device,
        plan: &Plan,
        limits: &Limits,
        attentions: &[Attention],
    ) -> Result<Self, Error> {
        let allocate = &mut |label: &str, bytes| device.buffer(label, bytes);
        Self::with(&device.capabilities, plan, limits, attentions, allocate)
    }
}

impl Scratch<()> {
    /// Bytes of the scratch memory.
    pub(crate) fn bytes(
        capabilities: &Capabilities,
        plan: &Plan,
        limits: &Limits,
        attentions: &[Attention],
    ) -> Result<u64, Error> {
        counted(|count| Self::with(capabilities, plan, limits, attentions, count).map(|_| ()))
    }
}

impl<B> Scratch<B> {
    /// Makes a buffer of a label and a number of bytes for each use.
    fn with(
        capabilities: &Capabilities,
        plan: &Plan,
        limits: &Limits,
        attentions: &[Attention],
        buffer: &mut dyn FnMut(&str, u64) -> Result<B, Error>,
    ) -> Result<Self, Error> {
        let cores = capabilities.matrix_cores;
        let most = limits.rows.max(limits.wants);
        let rows = limits.decode_rows().next_multiple_of(ROOM);
        let longest = longest_operand(plan);
        let halves = if cores { most * longest } else { 0 };
        let ups = plan.steps.iter().filter_map(|step| match &step.op {
            Op::NormGlu { norm: _, gate: _, up, gating: _ } => Some(plan.weight(up.weight).rows),
            Op::ExpertGlu { gate: _, up, gating: _ } => Some(up.used * plan.weight(up.weight).rows),
            _ => None,
        });
        // without matrix cores prompts have activations in 8 bits too
        let quantized = if cores { rows.max(limits.wants) } else { most };
        let normed = most * longest_normed(plan, cores);
        let zeros =
            plan.steps.iter().flat_map(biased).map(|linear| plan.weight(linear.weight).rows);
        let units = quantized * longest.div_ceil(UNIT);
        let partial = match cores {
            true => {
                partial_len(plan, rows).max(limits.rows * prompt_partial_len(plan, limits.rows))
            }
            false if ThreadTile::unrolls(capabilities) => tiled_partial_len(plan),
            false => 0,
        };
        let (pairs, tiles) = sorted_len(plan, most);
        let operands = most * longest_packed(plan, GatedDelta::packs(capabilities));
        Ok(Self {
            live_sums: buffer(
                "partial sums of live inputs",
                4 * live::partial_len(plan, most) as u64,
            )?,
            live_gates: buffer(
                "partial sums of live inputs for gates",
                4 * live::gates_len(plan, most) as u64,
            )?,
            kept: buffer("rows below 1", 4 * (most * live::kept(plan)) as u64)?,
            halves: buffer("activations in f16", 2 * halves as u64)?,
            normed: buffer("activations after a norm", 4 * normed as u64)?,
            zeros: buffer("zeros", 4 * zeros.max().unwrap_or(0) as u64)?,
            codes: buffer("activations in 8 bits", 32 * units as u64)?,
            scales: buffer("scales of activations", 8 * units as u64)?,
            partial: buffer("partial sums", 4 * partial as u64)?,
            factors: buffer("factors of norms", 4 * quantized as u64)?,
            up: buffer("up", 4 * (most * ups.max().unwrap_or(0)) as u64)?,
            operands: buffer("operands of linear attention", 4 * operands as u64)?,
            pairs: buffer("pairs of rows and experts", 4 * pairs as u64)?,
            tiles: buffer("tiles of pairs", 16 * tiles as u64)?,
            splits: buffer("KV splits", 4 * splits_len(attentions, rows, limits.context) as u64)?,
        })
    }
}

/// Elements of the longest row of prepared activations: of products with a matrix for each head or
/// chosen expert, those of all of them.
fn longest_operand(plan: &Plan) -> usize {
    let single = plan.weights.iter().filter(|weight| weight.kind == WeightKind::Matrix);
    let single = single.map(|weight| padded(weight.row_len));
    let several = plan.steps.iter().filter_map(|step| {
        let (weight, used) = match &step.op {
            Op::HeadLinear { weight, heads } => (*weight, *heads),
            Op::ExpertLinear(linear) => (linear.weight, linear.used),
            Op::ExpertGlu { gate, up: _, gating: _ } => (gate.weight, gate.used),
            _ => return None,
        };
        let row_len = plan.weight(weight).row_len;
        let own = step.inputs.first().is_some_and(|&x| plan.buffer(x).width != row_len);
        Some(if own { used * padded(row_len) } else { padded(row_len) })
    });
    single.chain(several).max().unwrap_or(0)
}

/// Elements of the longest row that a norm before products has in f32: a LayerNorm, and without
/// matrix cores any norm before products with weights in floats.
fn longest_normed(plan: &Plan, cores: bool) -> usize {
    let rows = plan.steps.iter().flat_map(|step| {
        let (layer, linears): (bool, Vec<&Linear>) = match &step.op {
            Op::NormLinear { norm, linears } => {
                (norm.kind == NormKind::Layer, linears.iter().collect())
            }
            Op::NormGlu { norm: _, gate, up, gating: _ } => (false, vec![gate, up]),
            _ => (false, Vec::new()),
        };
        let weights = linears.into_iter().map(|linear| plan.weight(linear.weight));
        let normed = move |dtype: DType| layer || (!cores && dtype.block_len() == 1);
        weights.filter(move |weight| normed(weight.dtype)).map(|weight| weight.row_len)
    });
    rows.max().unwrap_or(0)
}

/// The products of a step whose kernel adds a bias to some of them.
fn biased(step: &Step) -> Vec<&Linear> {
    let linears = products(step);
    let some = linears.iter().any(|linear| linear.bias.is_some());
    if some { linears } else { Vec::new() }
}

/// Elements of the longest row of packed operands of linear attention, where it `packs`, or of
/// steps of scans.
fn longest_packed(plan: &Plan, packs: bool) -> usize {
    let lens = plan.steps.iter().filter_map(|step| match step.op {
        Op::GatedDelta(op) if packs => Some(GatedDelta(op).packed_len()),
        Op::SelectiveScan(op) => Some(SelectiveScan(op).steps_len()),
        _ => None,
    });
    lens.max().unwrap_or(0)
}

/// The most pairs of `rows` rows and their experts, and the tiles of them.
fn sorted_len(plan: &Plan, rows: usize) -> (usize, usize) {
    let sizes = plan.steps.iter().filter_map(|step| match &step.op {
        Op::ExpertLinear(linear) | Op::ExpertGlu { gate: linear, up: _, gating: _ } => {
            let experts = plan.weight(linear.weight).count();
            let sort = Sort { experts, used: linear.used, tile: 1, count_at: 0 };
            Some((rows * linear.used, sort.tiles(rows)))
        }
        _ => None,
    });
    sizes.fold((0, 0), |most, size| (most.0.max(size.0), most.1.max(size.1)))
}

/// Pages of the longest page table of a slot: that of its context, or of an encoded window.
pub(crate) fn table_pages(plan: &Plan, limits: &Limits) -> usize {
    pages_for(limits.context.max(plan.encoded_positions()))
}

/// Maximum elements of the partial sums of decoding passes of up to `rows` rows, of matrix products
/// with K splits alone or in one dispatch.
fn partial_len(plan: &Plan, rows: usize) -> usize {
    let len = |k: usize, outputs: usize| {
        let splits = [DECODE, decode_few(outputs)].map(|tile| decode_splits(&tile, k, outputs));
        (splits[0].max(splits[1]), rows * outputs)
    };
    let of = |linears: &[&Linear]| {
        let weights = || linears.iter().map(|linear| plan.weight(linear.weight));
        len(weights().next().map_or(0, |w| w.row_len), weights().map(|w| w.rows).sum())
    };
    // without splits the product of one matrix has no partial sums, unless a later step adds them
    let when_split = |(splits, len): (usize, usize)| if splits == 1 { 0 } else { splits * len };
    let lens = plan.steps.iter().map(|step| match &step.op {
        Op::Linear(linear) => when_split(of(&[linear])),
        Op::LinearAdd(linear) => {
            let (splits, len) = of(&[linear]);
            splits * len
        }
        Op::NormLinear { norm: _, linears } => {
            let all: Vec<&Linear> = linears.iter().collect();
            let (splits, len) = if all.len() > 1 { of(&all) } else { (0, 0) };
            let alone = all.iter().map(|linear| when_split(of(&[linear]))).max();
            alone.unwrap_or(0).max(splits * len)
        }
        Op::NormGlu { norm: _, gate, up, gating: _ } => {
            let (splits, len) = of(&[gate, up]);
            let alone = [gate, up].map(|linear| when_split(of(&[linear])));
            alone[0].max(alone[1]).max(splits * len)
        }
        _ => 0,
    });
    lens.max().unwrap_or(0)
}

/// The matrices of a step's products.
fn products(step: &Step) -> Vec<&Linear> {
    match &step.op {
        Op::Linear(linear) | Op::LinearAdd(linear) => vec![linear],
        Op::NormLinear { norm: _, linears } => linears.iter().collect(),
        Op::NormGlu { norm: _, gate, up, gating: _ } => vec![gate, up],
        _ => Vec::new(),
    }
}

/// Maximum elements of the partial sums of a row of a prompt on matrix cores, in passes
/// of up to `most` rows.
pub(crate) fn prompt_partial_len(plan: &Plan, most: usize) -> usize {
    let of_all = plan.steps.iter().filter(|step| plan.step_rows(step) == Rows::All);
    let lens = of_all.flat_map(|step| {
        let rows = |linear: &Linear| plan.weight(linear.weight).rows;
        let linears = products(step);
        // each run of matrices may be in one dispatch
        let runs = (0..linears.len())
            .flat_map(|first| (first + 1..=linears.len()).map(move |end| first..end));
        let len = |run: std::ops::Range<usize>| {
            let run = &linears[run];
            let total = run.iter().map(|linear| rows(linear)).sum();
            match prompt_splits(plan.weight(run[0].weight).row_len, total, most) {
                1 => 0,
                splits => splits * total,
            }
        };
        runs.map(len).collect::<Vec<_>>()
    });
    lens.max().unwrap_or(0)
}

/// Maximum elements of the partial sums of products of few prompt rows without matrix cores.
fn tiled_partial_len(plan: &Plan) -> usize {
    let of_all = plan.steps.iter().filter(|step| plan.step_rows(step) == Rows::All);
    let lens = of_all.flat_map(|step| {
        let weights = products(step).into_iter().map(|linear| plan.weight(linear.weight));
        weights.map(|weight| match splits(weight.row_len) {
            1 => 0,
            splits => splits * FEW_ROWS * weight.rows,
        })
    });
    lens.max().unwrap_or(0)
}

/// Elements of the KV splits of the attention op that has the most of them, for `rows` rows at
/// positions below `context`.
fn splits_len(attentions: &[Attention], rows: usize, context: usize) -> usize {
    let len = |attention: &Attention| attention.splits_len(rows, attention.splits(context));
    attentions.iter().map(len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use pelton_graph::{KvType, Mask};

    use super::*;
    use crate::kernels::rope_store::Caches;

    /// A plan whose last layers have a window: fewer splits than the layers before need.
    #[test]
    fn splits_of_every_attention_fit() {
        let caches = Caches { kv_heads: 1, kv: KvType::F16, table: 64 };
        let global = Attention::causal(4, 64, caches);
        let local = Attention { mask: Mask::Causal { window: Some(512) }, ..global };
        let (rows, context) = (16, 4096);
        assert!(global.splits(context) > local.splits(context));
        // splits · rows · heads · (units of the sums, and one of the states) · 4
        let needed = global.splits(context) * rows * 4 * (64 / 4 + 1) * 4;
        for order in [[global, local], [local, global]] {
            assert!(splits_len(&order, rows, context) >= needed);
        }
    }
}
