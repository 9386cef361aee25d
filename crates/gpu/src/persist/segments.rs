//! The segments of a pass of few rows: runs of steps that are one persistent kernel each.

use std::{collections::HashMap, ops::Range, sync::Arc};

use pelton_graph::{BufferId, Error, Op, Phase as PassPhase, Plan, Rows};

use crate::{
    device::{Device, Kernel},
    kernels::{attention::Attention, matvec::Tuning},
    lower::{
        dispatch::{Dispatch, Grid, RowClass, StepDispatches, StepShape},
        kernel_cache::KernelCache,
        loaded::Loaded,
        lowering::Lowering,
        options::{Options, PhaseOptions, Tunings},
    },
    persist::link::{Launch, Linked, Phase, check, link},
};

/// Words of the barrier: those of `persistent.wgsl`.
pub(super) const BYTES: u64 = 4 * 96;
/// The index of the word that is not 0 once a spin has run out.
pub(super) const DEAD: usize = 32;

/// The persistent kernels of a plan: of one pass or more, which differ in their rows.
#[derive(Debug)]
pub(crate) struct Persistent(Vec<PersistentPass>);

/// The rows of a pass: one that is alone, or several of which some are of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PassRows {
    pub(crate) count: usize,
    /// Rows below 1.
    pub(crate) below: usize,
}

/// A pass of few rows in which the steps of each layer are one dispatch.
#[derive(Debug)]
pub(crate) struct PersistentPass {
    pub(super) rows: PassRows,
    items: Vec<Item>,
    words: wgpu::Buffer,
    /// The upper bound of positions, exclusive, at which it is used.
    most: usize,
}

/// Persistent kernels that are still to be compiled.
pub(super) struct Lowered {
    pub(super) pass: PersistentPass,
    pub(super) kernels: Vec<Arc<Kernel>>,
}

#[derive(Debug)]
enum Item {
    /// A step by its dispatches.
    Step(usize),
    Segment(Segment),
}

/// Steps that are one kernel.
#[derive(Debug)]
struct Segment {
    /// The attention among them, whose KV splits decide the variant.
    attention: Option<Attention>,
    /// The variant for one KV split, and that for several if the context has so many.
    one: Variant,
    more: Option<Variant>,
}

#[derive(Debug)]
struct Variant {
    kernel: Arc<Kernel>,
    bindings: wgpu::BindGroup,
    groups: u32,
}

impl PassRows {
    /// One full row.
    pub(crate) const ALONE: Self = Self::full(1);
    /// One row below 1.
    pub(crate) const BELOW: Self = Self { count: 1, below: 1 };

    /// So many full rows.
    pub(crate) const fn full(count: usize) -> Self {
        Self { count, below: 0 }
    }

    /// The shape of a pass at positions below `bound`.
    pub(super) const fn shape(self, bound: usize) -> StepShape {
        let Self { count: rows, below } = self;
        StepShape { rows, bound, tiles: 0, distinct: rows == 1, sequences: 1, below }
    }
}

impl Persistent {
    /// `None` without a pass.
    pub(super) fn new(passes: Vec<PersistentPass>) -> Option<Self> {
        (!passes.is_empty()).then_some(Self(passes))
    }

    /// The kernels of a pass of these rows.
    pub(crate) fn of(&self, rows: PassRows) -> Option<&PersistentPass> {
        self.0.iter().find(|pass| pass.rows == rows)
    }
}

impl PersistentPass {
    /// Lowers the steps of a pass of these rows, at positions below `context`, for kernels of this
    /// launch. `None` if no two steps can be one kernel.
    pub(super) fn lower(
        loaded: &Loaded<'_>,
        launch: &Launch,
        rows: PassRows,
        context: usize,
    ) -> Result<Option<Lowered>, Error> {
        let Loaded { device, plan, .. } = *loaded;
        let &Launch { threads, groups, stage, early, turns: _ } = launch;
        let options = Options {
            tunings: Tunings::Equal(Tuning { threads, groups, stage }),
            phases: Some(PhaseOptions { threads, early }),
            dense: false,
        };
        let mut kernels = KernelCache::default();
        let PassRows { count, below } = rows;
        let class = RowClass::of(PassPhase::Decode, count, false);
        let mut steps = Lowering::new(loaded, options, &mut kernels).steps(class, count == 1)?;
        steps.iter_mut().for_each(|calls| calls.retain(|call| call.when.holds(count, below)));
        let words = device.buffer("words of the grid barrier", BYTES)?;
        let mut builder =
            Builder { device, launch, rows, context, words: &words, kernels: HashMap::new() };
        let mut items = Vec::new();
        for run in runs(plan, &steps, launch, count) {
            builder.items(&steps, run, &mut items)?;
        }
        let kernels: Vec<Arc<Kernel>> = builder.kernels.into_values().collect();
        // beyond the context a segment lacks its variant for several KV splits
        let pass = Self { rows, items, words, most: context };
        Ok((!kernels.is_empty()).then_some(Lowered { pass, kernels }))
    }

    /// Records a pass at positions below `bound`; `step` gives the dispatches of a step.
    pub(crate) fn record<'a>(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        bound: usize,
        step: impl Fn(usize) -> Option<StepDispatches<'a>>,
    ) {
        for item in &self.items {
            match item {
                Item::Step(i) => {
                    step(*i).inspect(|step| step.record(pass));
                }
                Item::Segment(segment) => segment.record(pass, bound),
            }
        }
    }

    /// Uses it at positions below `most` only.
    pub(super) fn up_to(self, most: usize) -> Self {
        Self { most: most.min(self.most), ..self }
    }

    /// Whether it is used for a pass at a position below `bound`.
    pub(crate) fn covers(&self, bound: usize) -> bool {
        bound <= self.most
    }

    /// The word that is not 0 once a spin has run out: its buffer and its offset in bytes.
    pub(crate) fn dead(&self) -> (wgpu::Buffer, u64) {
        (self.words.clone(), 4 * DEAD as u64)
    }

    /// Zeroes the words of the barrier, while no pass runs.
    pub(super) fn reset(&self, device: &Device) {
        device.queue.write_buffer(&self.words, 0, &[0; BYTES as usize]);
    }

    /// Dispatches of the segments.
    pub(crate) fn segments(&self) -> usize {
        self.items.iter().filter(|item| matches!(item, Item::Segment(_))).count()
    }
}

#[cfg(test)]
impl Persistent {
    /// Numbers of rows of the passes, and the dispatches of their segments.
    pub(crate) fn passes(&self) -> Vec<(usize, usize)> {
        self.0.iter().map(|pass| (pass.rows.count, pass.segments())).collect()
    }

    /// The WGSL of the segments' kernels.
    pub(crate) fn sources(&self) -> std::collections::BTreeSet<&str> {
        let items = self.0.iter().flat_map(|pass| &pass.items);
        let segments = items.filter_map(|item| match item {
            Item::Segment(segment) => Some([&segment.one].into_iter().chain(&segment.more)),
            Item::Step(_) => None,
        });
        segments.flatten().map(|variant| variant.kernel.source().text()).collect()
    }
}

impl Segment {
    fn record(&self, pass: &mut wgpu::ComputePass<'_>, bound: usize) {
        let several = self.attention.is_some_and(|attention| attention.splits(bound) > 1);
        let variant = if several { self.more.as_ref() } else { None };
        let Variant { kernel, bindings, groups } = variant.unwrap_or(&self.one);
        kernel.record(pass, bindings, [*groups, 1, 1]);
    }
}

/// The ranges of steps that can be one kernel each, and the other steps alone. A range ends where a
/// layer does, so that layers have equal kernels, and before the logits. Any number of several rows
/// may be selected, so the steps of selected rows are not linked.
fn runs(plan: &Plan, steps: &[Vec<Dispatch>], launch: &Launch, rows: usize) -> Vec<Range<usize>> {
    let writer = |id: BufferId, before: usize| {
        plan.steps[..before].iter().rposition(|step| step.outputs.contains(&id))
    };
    let mut begins: Vec<usize> = (0..plan.steps.len())
        .filter(|&i| matches!(plan.steps[i].op, Op::RopeAttend(..)))
        .filter_map(|i| writer(plan.steps[i].inputs[0], i))
        .collect();
    begins.extend(writer(plan.logits, plan.steps.len()));
    let sources = steps.iter().flatten().map(|call| call.kernel.source().text());
    let mut checked: HashMap<&str, bool> = HashMap::new();
    for source in sources {
        checked.entry(source).or_insert_with(|| check(source, launch).is_ok());
    }
    let fits = |calls: &[Dispatch]| {
        calls.iter().all(|call| checked.get(call.kernel.source().text()) == Some(&true))
    };
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut open = false;
    for (i, calls) in steps.iter().enumerate() {
        let counted = rows == 1 || plan.step_rows(&plan.steps[i]) == Rows::All;
        let fits = counted && fits(calls);
        match runs.last_mut() {
            Some(run) if open && fits && !begins.contains(&i) => run.end = i + 1,
            _ => runs.push(i..i + 1),
        }
        open = fits;
    }
    runs
}

struct Builder<'a> {
    device: &'a Device,
    launch: &'a Launch,
    rows: PassRows,
    context: usize,
    words: &'a wgpu::Buffer,
    /// Kernels by their source.
    kernels: HashMap<String, Arc<Kernel>>,
}

impl Builder<'_> {
    /// Adds a range of steps: as one segment, as several where a kernel cannot have so many buffers
    /// or so much workgroup memory, or as dispatches.
    fn items(
        &mut self,
        steps: &[Vec<Dispatch>],
        run: Range<usize>,
        items: &mut Vec<Item>,
    ) -> Result<(), Error> {
        if let Some(segment) = self.segment(&steps[run.clone()])? {
            items.push(Item::Segment(segment));
        } else if run.len() < 3 {
            items.extend(run.map(Item::Step));
        } else {
            let middle = run.start + run.len() / 2;
            self.items(steps, run.start..middle, items)?;
            self.items(steps, middle..run.end, items)?;
        }
        Ok(())
    }

    /// The kernels of some steps; `None` if they cannot be linked.
    fn segment(&mut self, steps: &[Vec<Dispatch>]) -> Result<Option<Segment>, Error> {
        let calls = || steps.iter().flatten();
        let attention = calls().find_map(|call| match call.grid {
            Grid::Decode { attention, split: _, fused: _ } => Some(attention),
            _ => None,
        });
        let Some(one) = self.variant(calls(), 1)? else { return Ok(None) };
        let several = attention.is_some_and(|attention| attention.splits(self.context) > 1);
        let more = if several { self.variant(calls(), self.context)? } else { None };
        if several && more.is_none() {
            return Ok(None);
        }
        Ok(Some(Segment { attention, one, more }))
    }

    /// The kernel of the dispatches that run at positions below `bound`.
    fn variant<'c>(
        &mut self,
        calls: impl Iterator<Item = &'c Dispatch>,
        bound: usize,
    ) -> Result<Option<Variant>, Error> {
        let shape = self.rows.shape(bound);
        let phases: Vec<Phase<'_>> = calls
            .filter_map(|call| {
                let groups = call.groups(&shape)?;
                Some(Phase { source: call.kernel.source().text(), buffers: &call.buffers, groups })
            })
            .collect();
        if phases.len() < 2 {
            return Ok(None);
        }
        let Ok(linked) = link(&phases, self.launch) else { return Ok(None) };
        if linked.source.bindings().len() > self.device.capabilities.storage_buffers {
            return Ok(None);
        }
        if linked.shared > self.device.capabilities.workgroup_bytes as usize {
            return Ok(None);
        }
        self.bound(&linked).map(Some)
    }

    fn bound(&mut self, linked: &Linked) -> Result<Variant, Error> {
        let Linked { source, buffers, shared: _ } = linked;
        let label = "persistent layer";
        let kernel = match self.kernels.get(source.text()) {
            Some(kernel) => Arc::clone(kernel),
            None => {
                let kernel = Arc::new(self.device.kernel_to_compile(label, source));
                self.kernels.insert(source.text().to_owned(), Arc::clone(&kernel));
                kernel
            }
        };
        let mut bindings: Vec<_> = buffers.iter().map(|bound| bound.binding()).collect();
        bindings.push(self.words.as_entire_buffer_binding());
        let bindings = self.device.bind(label, &kernel, &bindings)?;
        Ok(Variant { kernel, bindings, groups: self.launch.groups as u32 })
    }
}
