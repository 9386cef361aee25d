//! Feed-forwards in the memory of the CPU, next to a GPU that has all else.

use std::{ops::Range, sync::Arc};

use pelton_graph::{
    Backend, BufferId, Error, Executable, HostExecutables, HostPart, KvType, Limits, Needs, Op,
    Plan, Rates, Rows,
};
use pelton_weights::Checkpoint;

use crate::{
    cut::{caches_and_states, live},
    predict::Work,
    split::file_bytes,
};

/// The feed-forward networks that leave a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedForwards {
    /// Those with routed experts.
    Experts,
    /// All.
    All,
}

impl FeedForwards {
    /// Their name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Experts => "experts",
            Self::All => "feed-forwards",
        }
    }
}

/// The feed-forwards of the layers before `layers` that the host can have, by their layers: each
/// is the end of a layer, after the sum of its attention and the residual stream. It uses no cache
/// and no state, and a single buffer goes in. A layer whose attention and feed-forward run in
/// parallel has none, and neither has one of a model with LoRA adapters, an encoder, or further
/// values of all layers.
pub fn host_parts(plan: &Plan, which: FeedForwards, layers: usize) -> Vec<(usize, HostPart)> {
    if plan.adapters().is_some() || plan.encoder.is_some() {
        return Vec::new();
    }
    let of_layer = |layer| Some((layer, host_part(plan, which, layer)?));
    (0..layers.min(plan.shape.layers)).filter_map(of_layer).collect()
}

fn host_part(plan: &Plan, which: FeedForwards, layer: usize) -> Option<HostPart> {
    let of_layer = |i: &usize| plan.steps[*i].layer == Some(layer);
    let begin = (0..plan.steps.len()).find(of_layer)?;
    let end = (begin..plan.steps.len()).take_while(of_layer).last()? + 1;
    let uses = |i: &usize| !caches_and_states(&plan.steps[*i..=*i]).is_empty();
    let attention = (begin..end).rev().find(uses)?;
    let exit = single(plan, end)?;
    let (first, entry) = (attention + 1..end).find_map(|at| Some((at, single(plan, at)?)))?;
    let steps = &plan.steps[first..end];
    let is_wanted = |op: &Op| match op {
        Op::ExpertLinear(_) => true,
        Op::Linear(_) => which == FeedForwards::All,
        _ => false,
    };
    let all_rows = |id: &BufferId| plan.buffer(*id).rows == Rows::All;
    let own = steps
        .iter()
        .all(|step| !matches!(step.op, Op::Rope { .. }) && step.outputs.iter().all(all_rows));
    let found = own && steps.iter().any(|step| is_wanted(&step.op));
    found.then_some(HostPart { steps: first..end, entry, exit })
}

/// The buffer of all rows that steps from `at` on read, if it is the only one.
fn single(plan: &Plan, at: usize) -> Option<BufferId> {
    let live = live(plan, at);
    let [id] = live[..] else { return None };
    (plan.buffer(id).rows == Rows::All).then_some(id)
}

/// A GPU whose plans have the feed-forwards of their first layers in the memory of the CPU. As a
/// backend it is the GPU: its name, its memory and its sums.
#[derive(Clone)]
pub struct HostParts {
    gpu: Arc<dyn Backend>,
    cpu: Arc<dyn Backend>,
    which: FeedForwards,
    layers: usize,
    stream_from: Option<usize>,
}

impl HostParts {
    /// The feed-forwards of the layers before `layers` on `cpu`, next to a GPU.
    pub fn new(
        gpu: Arc<dyn Backend>,
        cpu: Arc<dyn Backend>,
        which: FeedForwards,
        layers: usize,
    ) -> Self {
        Self { gpu, cpu, which, layers, stream_from: None }
    }

    /// The same with weights that are streamed for prompts of this many tokens and more, and not
    /// from the length on that is measured to be faster so.
    #[must_use]
    pub fn streaming_from(self, tokens: usize) -> Self {
        Self { stream_from: Some(tokens), ..self }
    }

    /// The plan of the GPU, and those of the CPU, with the fused ops that each accepts.
    fn plans(&self, plan: &Plan) -> (Plan, Vec<Plan>) {
        let host: Vec<HostPart> =
            host_parts(plan, self.which, self.layers).into_iter().map(|(_, part)| part).collect();
        let fused =
            |plan: Plan, backend: &dyn Backend| plan.fuse(&|op, plan| backend.accepts(op, plan));
        let parts = host.iter().map(|part| fused(plan_of(plan, part), self.cpu.as_ref())).collect();
        (fused(Plan { host, ..plan.clone() }, self.gpu.as_ref()), parts)
    }

    /// The layers whose feed-forwards the CPU has, and the memory that they need there;
    /// `None` if there are none.
    ///
    /// # Errors
    ///
    /// As [`Backend::needs`].
    pub fn on_host(&self, plan: &Plan, limits: &Limits) -> Result<Option<HostShare>, Error> {
        let layers = host_parts(plan, self.which, self.layers);
        let (Some((first, _)), Some((last, _))) = (layers.first(), layers.last()) else {
            return Ok(None);
        };
        let mut needs = Needs::default();
        for part in self.plans(plan).1 {
            needs = needs.plus(&self.cpu.needs(&part, &limits_of_part(&part, limits))?);
        }
        Ok(Some(HostShare { which: self.which, layers: *first..last + 1, needs }))
    }

    /// The work of a decoding row on the GPU and on the CPU, which has none of prompts.
    pub fn works(&self, plan: &Plan, depth: usize, kv: KvType) -> [Work; 2] {
        let (own, parts) = self.plans(plan);
        let of_cpu = parts.iter().map(|part| Work::of(part, 1, depth, kv));
        let of_cpu = of_cpu.fold(Work::default(), Work::plus);
        [Work::of(&own, 1, depth, kv), Work { operations: 0.0, ..of_cpu }]
    }

    /// The CPU.
    pub fn cpu(&self) -> &Arc<dyn Backend> {
        &self.cpu
    }
}

/// The feed-forwards that the CPU has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostShare {
    /// Whether they are those with experts alone.
    pub which: FeedForwards,
    /// The layers from the first one to the last one with such a feed-forward.
    pub layers: Range<usize>,
    /// The memory that they need.
    pub needs: Needs,
}

/// The plan of a part alone.
fn plan_of(plan: &Plan, part: &HostPart) -> Plan {
    let HostPart { steps, entry, exit } = part;
    let steps = plan.steps[steps.clone()].to_vec();
    Plan {
        steps,
        entry: vec![*entry],
        exit: vec![*exit],
        logits: *exit,
        // rows of a part have no tokens and no positions
        groups: Vec::new(),
        ropes: Vec::new(),
        host: Vec::new(),
        whole_sequences: false,
        ..plan.clone()
    }
    .keep_used()
}

/// The limits of a part: those of decoding passes, each row in a slot of its own.
fn limits_of_part(part: &Plan, limits: &Limits) -> Limits {
    let rows = limits.decode_rows();
    Limits {
        rows,
        wants: 1,
        sequences: rows,
        context: 1,
        pages: Vec::new(),
        snapshots: 0,
        tokens: limits.tokens.min(part.output_width()),
        bias: 0,
        kv: limits.kv,
    }
}

impl Backend for HostParts {
    fn name(&self) -> &str {
        self.gpu.name()
    }

    /// No fused op: the parts of each are fused for their own device.
    fn accepts(&self, op: &Op, plan: &Plan) -> bool {
        op.is_elementary() && self.gpu.accepts(op, plan)
    }

    fn needs(&self, plan: &Plan, limits: &Limits) -> Result<Needs, Error> {
        self.gpu.needs(&self.plans(plan).0, limits)
    }

    fn budget(&self) -> Option<u64> {
        self.gpu.budget()
    }

    fn rates_key(&self) -> Option<String> {
        self.gpu.rates_key()
    }

    fn measure_rates(&self) -> Result<Rates, Error> {
        self.gpu.measure_rates()
    }

    fn streams_weights(&self) -> bool {
        true
    }

    /// Many rows, as each pass over a prompt streams all weights of the host once.
    fn prompt_rows(&self, _: &Plan, _: u64) -> usize {
        2048
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        if let (Some(share), Some(budget)) = (self.on_host(&plan, &limits)?, self.cpu.budget()) {
            share.needs.check(self.cpu.name(), budget, 0)?;
        }
        let (own, parts) = self.plans(&plan);
        let on_cpu: u64 = parts.iter().map(file_bytes).sum();
        let all = file_bytes(&plan).saturating_add(on_cpu);
        let (mut before, mut host) = (0, Vec::with_capacity(parts.len()));
        for part in parts {
            let (bytes, limits) = (file_bytes(&part), limits_of_part(&part, &limits));
            host.push(self.cpu.load(part, Arc::clone(&checkpoint), limits, &mut |done, _| {
                progress(before + done.min(bytes), all);
            })?);
            before += bytes;
        }
        let (stream_from, rates_key) = (self.stream_from, self.cpu.rates_key());
        let host = HostExecutables { parts: host, stream_from, rates_key };
        self.gpu.load_with_host(own, checkpoint, limits, host, &mut |done, _| {
            progress(on_cpu + done, all);
        })
    }
}
