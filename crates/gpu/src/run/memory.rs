//! The memory of the KV caches, the sum of a load, and the checks whether it fits the GPU.

use pelton_graph::{
    BufferId, Error, HostPart, KvElement, KvType, Limits, Needs, Op, PAGE, Phase, Plan, Ranking,
    State, Values,
};

use crate::{
    device::{Device, Outbox},
    kernels::{attention::Attention, ranking::RankingKernels, rope_store::stored_bytes, sample},
    lower::{Cache, Inputs, Scratch, buffers::table_pages},
    run::in_flight::{DEPTH, InFlight},
    weights::{STAGING_BYTES, resident_bytes, streamed_bytes},
};

/// Allocates the KV caches of all layers.
pub(crate) fn allocate_caches(
    device: &Device,
    plan: &Plan,
    limits: &Limits,
) -> Result<Vec<Cache>, Error> {
    let allocate = |cache: &pelton_graph::Cache| {
        let [keys, values] = page_bytes(cache, limits.kv);
        let buffer = |name, page: u64| -> Result<_, Error> {
            let bytes = page.saturating_mul(limits.pages[cache.group] as u64);
            Ok((device.buffer(name, bytes)?, page))
        };
        let values = match cache.values {
            Values::Own { dim: _ } => Some(buffer("values", values)?),
            Values::KeyPrefix { dim: _ } => None,
        };
        Ok(Cache { keys: buffer("keys", keys)?, values })
    };
    plan.caches.iter().map(allocate).collect()
}

/// Bytes of a page of keys, and of the values that are stored.
fn page_bytes(cache: &pelton_graph::Cache, kv: KvType) -> [u64; 2] {
    let values = match cache.values {
        Values::Own { dim } => stored_bytes(kv.values, dim),
        Values::KeyPrefix { dim: _ } => 0,
    };
    [stored_bytes(kv.keys, cache.key_dim), values].map(|bytes| (cache.heads * PAGE * bytes) as u64)
}

/// Bytes of a recurrent state of `count` slots or snapshots.
fn state_bytes(state: &State, count: usize) -> u64 {
    (4 * state.len as u64).saturating_mul(count as u64)
}

/// The recurrent states of a plan and their snapshots. The two are different buffers, because a
/// copy within one is not allowed.
pub(crate) struct States {
    /// `[states]`, each `[slots, len]` f32.
    pub(crate) slots: Vec<wgpu::Buffer>,
    /// `[states]`, each `[snapshots, len]` f32.
    snapshots: Vec<wgpu::Buffer>,
    /// Bytes `[states]` of one slot.
    bytes: Vec<u64>,
}

impl States {
    pub(crate) fn allocate(device: &Device, plan: &Plan, limits: &Limits) -> Result<Self, Error> {
        let allocate = |name, count| -> Result<Vec<_>, Error> {
            let states = plan.states.iter();
            states.map(|state| device.buffer(name, state_bytes(state, count))).collect()
        };
        Ok(Self {
            slots: allocate("states", limits.sequences)?,
            snapshots: allocate("snapshots of states", limits.snapshots)?,
            bytes: plan.states.iter().map(|state| state_bytes(state, 1)).collect(),
        })
    }

    /// Submits a copy of the states of a slot to a snapshot.
    pub(crate) fn save(&self, device: &Device, slot: u32, snapshot: u32) -> Result<(), Error> {
        Self::copy(device, &self.bytes, (&self.slots, slot), (&self.snapshots, snapshot))
    }

    /// Submits a copy of a snapshot to the states of a slot.
    pub(crate) fn restore(&self, device: &Device, snapshot: u32, slot: u32) -> Result<(), Error> {
        Self::copy(device, &self.bytes, (&self.snapshots, snapshot), (&self.slots, slot))
    }

    fn copy(
        device: &Device,
        bytes: &[u64],
        from: (&[wgpu::Buffer], u32),
        to: (&[wgpu::Buffer], u32),
    ) -> Result<(), Error> {
        let mut encoder = device.device.create_command_encoder(&Default::default());
        for ((source, target), &bytes) in from.0.iter().zip(to.0).zip(bytes) {
            let at = |index: u32| u64::from(index) * bytes;
            encoder.copy_buffer_to_buffer(source, at(from.1), target, at(to.1), bytes);
        }
        device.queue.submit([encoder.finish()]);
        device.check()
    }
}

/// Refuses limits that exceed those of a dispatch.
pub(crate) fn check_limits(device: &Device, plan: &Plan, limits: &Limits) -> Result<(), Error> {
    /// Maximum workgroups along one dimension of a dispatch.
    const MOST: usize = 65_535;
    check_kv(limits.kv, plan)?;
    if limits.rows > MOST || limits.wants > MOST {
        return Err(device.fail(format!(
            "passes of {} rows and {} wants, expected at most {MOST} of each",
            limits.rows, limits.wants
        )));
    }
    // along y of a dispatch: the experts of each decoded row
    let used = plan.steps.iter().filter_map(|step| match &step.op {
        Op::ExpertLinear(linear) | Op::ExpertGlu { gate: linear, up: _, gating: _ } => {
            Some(linear.used)
        }
        _ => None,
    });
    let (used, rows) = (used.max().unwrap_or(0), limits.decode_rows());
    if used.saturating_mul(rows) > MOST {
        return Err(device.fail(format!(
            "decoding passes of {rows} rows with {used} experts each, expected at most {MOST} pairs \
             of a row and an expert"
        )));
    }
    if limits.pages.len() != plan.groups.len() {
        return Err(device.fail(format!(
            "pages for {} cache groups, expected {}",
            limits.pages.len(),
            plan.groups.len()
        )));
    }
    Ok(())
}

/// Refuses element types of KV caches that the kernels do not support.
fn check_kv(kv: KvType, plan: &Plan) -> Result<(), Error> {
    for cache in &plan.caches {
        cache.check(kv)?;
        // a unit is four elements of blocks, two of f16 and bf16
        let odd = |kv: KvElement| match kv {
            KvElement::F32 => false,
            _ if kv.block().is_some() => !(cache.key_dim | cache.value_dim()).is_multiple_of(4),
            _ => (cache.key_dim | cache.value_dim()) % 2 == 1,
        };
        if let Some(kv) = [kv.keys, cache.value_type(kv)].into_iter().find(|&kv| odd(kv)) {
            return Err(Error::Kv {
                kv,
                what: match kv.block() {
                    Some(_) => {
                        "keys and values of lengths that 4 does not divide, expected f16 or f32"
                    }
                    None => "heads of an odd length, which a GPU keeps in f32",
                }
                .to_owned(),
            });
        }
    }
    Ok(())
}

/// Refuses caches too large for a kernel to bind those of a layer, before anything is uploaded.
fn check_bindings(device: &Device, plan: &Plan, limits: &Limits) -> Result<(), Error> {
    let most = device.capabilities.binding_bytes.min(device.capabilities.buffer_bytes);
    for cache in &plan.caches {
        let [keys, values] = page_bytes(cache, limits.kv);
        let page = keys.max(values).max(1);
        let needed = page.saturating_mul(limits.pages[cache.group] as u64);
        if needed > most {
            let fitting = match context_of(most / page, limits) {
                0 => "no context would fit".to_owned(),
                fits => format!("a context of {fits} would fit"),
            };
            return Err(device.fail(format!(
                "the keys or values of a layer need {needed} bytes, expected at most {most}, which a \
                 kernel can bind; {fitting}"
            )));
        }
    }
    Ok(())
}

/// The context of each sequence in as many pages.
fn context_of(pages: u64, limits: &Limits) -> usize {
    pages as usize / limits.sequences.max(1) * PAGE
}

/// The bytes of a page of all layers of a group.
fn group_bytes(plan: &Plan, kv: KvType, group: usize) -> u64 {
    let caches = plan.caches.iter().filter(|cache| cache.group == group);
    caches.flat_map(|cache| page_bytes(cache, kv)).fold(0, u64::saturating_add)
}

/// The bytes that a load of a plan allocates on a GPU.
pub(crate) fn needs(device: &Device, plan: &Plan, limits: &Limits) -> Result<Needs, Error> {
    check_limits(device, plan, limits)?;
    let pages = limits.pages.iter().enumerate();
    let pages = pages
        .map(|(group, &pages)| group_bytes(plan, limits.kv, group).saturating_mul(pages as u64));
    let of_states = |count| plan.states.iter().map(move |state| state_bytes(state, count));
    let buffers = plan
        .buffers
        .iter()
        .map(|b| (4 * b.width as u64).saturating_mul(limits.rows_of(b.rows) as u64))
        .chain(of_states(limits.sequences))
        .chain([
            Inputs::bytes(plan, limits)?,
            results_bytes(plan, limits)?,
            host_bytes(plan, limits),
        ])
        .fold(0, u64::saturating_add);
    let attentions = attentions(plan, limits, table_pages(plan, limits));
    Ok(Needs {
        weights: resident_bytes(device, plan),
        caches: pages.chain(of_states(limits.snapshots)).fold(0, u64::saturating_add),
        buffers,
        scratch: Scratch::bytes(&device.capabilities, plan, limits, &attentions)?,
        streamed: streamed_bytes(device, plan),
        // a load with weights of the host keeps it
        staging: if plan.host.is_empty() { STAGING_BYTES } else { 0 },
        mapped: 0,
    })
}

/// Bytes of sampling, of rankings, of the results of passes in flight, and of the states with
/// which they can run again.
fn results_bytes(plan: &Plan, limits: &Limits) -> Result<u64, Error> {
    let width = plan.output_width();
    let (sampling, samples) = sample::bytes(width, limits.tokens, limits.wants, limits.bias)?;
    let ranks = match plan.encoder {
        Some(_) => RankingKernels::bytes([width, limits.tokens.min(width)], limits.wants),
        None => 0,
    };
    let (logits, hidden) = (logits_len(plan, limits), hidden_len(plan, limits));
    let samples = samples.saturating_add(4 * limits.rows as u64);
    let read_back = InFlight::bytes([samples, 4 * logits as u64, 4 * hidden as u64]);
    let before = 4 * (before_len(plan, limits) + DEPTH * saved_len(plan, limits)) as u64;
    Ok([ranks, read_back, before].into_iter().fold(sampling, u64::saturating_add))
}

/// Bytes of the boxes of a plan with parts of the host.
fn host_bytes(plan: &Plan, limits: &Limits) -> u64 {
    match hop_bytes(plan, limits) {
        [0, 0] => 0,
        [to_host, back] => to_host.saturating_add(Outbox::bytes(back)),
    }
}

/// Bytes of the values that go to the host in the middle of a decoding pass, and of
/// those that come back.
pub(crate) fn hop_bytes(plan: &Plan, limits: &Limits) -> [u64; 2] {
    let bytes = |of: fn(&HostPart) -> BufferId| {
        let widths = plan.host.iter().map(|part| plan.buffer(of(part)).width);
        4 * (limits.decode_rows() * widths.max().unwrap_or(0)) as u64
    };
    [bytes(|part| part.entry), bytes(|part| part.exit)]
}

/// Elements of the results of a pass that are logits.
pub(crate) fn logits_len(plan: &Plan, limits: &Limits) -> usize {
    let ranked = plan.encoder.map_or(0, |_| Ranking::width(Ranking::MOST));
    limits.wants * plan.output_width().max(ranked)
}

/// Elements of the hidden states that a pass can keep.
pub(crate) fn hidden_len(plan: &Plan, limits: &Limits) -> usize {
    let widths = [Phase::Encode, Phase::Decode].map(|phase| plan.width_of(plan.kept(phase)));
    limits.rows * widths[0].max(widths[1])
}

/// Elements of the hidden states that a pass of a head takes of the pass before.
pub(crate) fn before_len(plan: &Plan, limits: &Limits) -> usize {
    match plan.entry.is_empty() || plan.entry != plan.exit {
        true => 0,
        false => limits.rows * plan.hidden_width(),
    }
}

/// Elements of the hidden states that a decoding pass of a head takes of another pass.
pub(crate) fn saved_len(plan: &Plan, limits: &Limits) -> usize {
    match before_len(plan, limits) {
        0 => 0,
        _ => limits.decode_rows() * plan.hidden_width(),
    }
}

/// Refuses a load that needs more than `available` bytes, and names the context that would fit.
/// Matrices of `shared` bytes are on the GPU.
pub(crate) fn check_memory(
    device: &Device,
    plan: &Plan,
    limits: &Limits,
    available: Option<u64>,
    shared: u64,
) -> Result<Needs, Error> {
    check_bindings(device, plan, limits)?;
    let mut needs = needs(device, plan, limits)?;
    needs.weights = needs.weights.saturating_sub(shared);
    let Some(available) = available else { return Ok(needs) };
    let of_page = (0..plan.groups.len()).map(|group| group_bytes(plan, limits.kv, group));
    let others = needs.total() - needs.caches;
    let pages = available.saturating_sub(others) / of_page.sum::<u64>().max(1);
    needs.check(&device.name, available, context_of(pages, limits).min(limits.context))?;
    Ok(needs)
}

/// Compares the sum of a load with the bytes that were allocated for it.
pub(crate) fn compare(device: &Device, needs: &Needs, before: Option<u64>) {
    let Some(allocated) =
        device.allocated().zip(before).map(|(now, then)| now.saturating_sub(then))
    else {
        return;
    };
    let expected = needs.total();
    tracing::debug!(expected, allocated, "memory of the load");
    if allocated.abs_diff(expected) > expected / 50 {
        tracing::warn!(expected, allocated, "the load has not the memory that was expected");
    }
}

/// The attention ops of a plan.
pub(crate) fn attentions(plan: &Plan, limits: &Limits, table: usize) -> Vec<Attention> {
    let ops = plan.steps.iter().filter_map(|step| match &step.op {
        Op::Attend(op) | Op::RopeAttend(_, op) => Some(op),
        _ => None,
    });
    ops.map(|op| Attention::of(op, &plan.caches[op.cache], limits.kv, table)).collect()
}
