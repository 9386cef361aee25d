//! The memory of the KV caches, and the checks whether a load fits the GPU.

use pelton_graph::{Error, KvType, Limits, Op, PAGE, Plan, State, Values};

use crate::{
    device::Device,
    kernels::rope_store::stored_bytes,
    lower::{Cache, buffers::decode_rows},
    weights::resident_bytes,
};

/// Allocates the KV caches of all layers.
pub(crate) fn allocate_caches(
    device: &Device,
    plan: &Plan,
    limits: &Limits,
) -> Result<Vec<Cache>, Error> {
    let allocate = |cache: &pelton_graph::Cache| {
        let page_bytes = |dim: usize| page_bytes(cache, limits.kv, dim);
        let bytes = |dim| page_bytes(dim).saturating_mul(limits.pages[cache.group] as u64);
        let values = match cache.values {
            Values::Own { dim } => Some((device.buffer("values", bytes(dim))?, page_bytes(dim))),
            Values::KeyPrefix { dim: _ } => None,
        };
        let keys = device.buffer("keys", bytes(cache.key_dim))?;
        Ok(Cache { keys: (keys, page_bytes(cache.key_dim)), values })
    };
    plan.caches.iter().map(allocate).collect()
}

/// Bytes of a page of keys or values of `dim` elements.
fn page_bytes(cache: &pelton_graph::Cache, kv: KvType, dim: usize) -> u64 {
    (cache.heads * PAGE * stored_bytes(kv, dim)) as u64
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
    let (used, rows) = (used.max().unwrap_or(0), decode_rows(limits));
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
    let odd = |cache: &pelton_graph::Cache| (cache.key_dim | cache.value_dim()) % 2 == 1;
    match kv {
        KvType::F16 if plan.caches.iter().any(odd) => Err(Error::Kv {
            kv,
            what: "heads of an odd length, which a GPU keeps in f32".to_owned(),
        }),
        KvType::F16 | KvType::F32 => Ok(()),
        KvType::Q8_0 => {
            let dims = plan.caches.iter().flat_map(|cache| [cache.key_dim, cache.value_dim()]);
            match dims.into_iter().find(|dim| !dim.is_multiple_of(32)) {
                Some(dim) => Err(Error::Kv {
                    kv,
                    what: format!(
                        "heads of {dim} elements are no whole blocks of 32, expected f16 or f32"
                    ),
                }),
                None => Ok(()),
            }
        }
    }
}

/// Refuses caches too large for a kernel to bind those of a layer, before anything is uploaded.
/// Refuses a model that does not fit in the GPU's memory with `scratch` bytes of scratch memory,
/// and names the context that would fit.
pub(crate) fn check_memory(
    device: &Device,
    plan: &Plan,
    limits: &Limits,
    scratch: u64,
) -> Result<(), Error> {
    const MIB: u64 = 1 << 20;
    let fitting = |pages: u64| match pages as usize / limits.sequences.max(1) * PAGE {
        0 => "no context would fit".to_owned(),
        fits => format!("a context of {fits} would fit"),
    };
    let most = device.capabilities.binding_bytes.min(device.capabilities.buffer_bytes);
    for cache in &plan.caches {
        let values = match cache.values {
            Values::Own { dim } => dim,
            Values::KeyPrefix { dim: _ } => 0,
        };
        let page = page_bytes(cache, limits.kv, cache.key_dim.max(values)).max(1);
        let needed = page.saturating_mul(limits.pages[cache.group] as u64);
        if needed > most {
            return Err(device.fail(format!(
                "the keys or values of a layer need {needed} bytes, expected at most {most}, which a \
                 kernel can bind; {}",
                fitting(most / page)
            )));
        }
    }
    let Some(available) = device.memory else { return Ok(()) };
    let weights = resident_bytes(plan);
    let position = |group| limits.kv.bytes(plan.cache_len_per_position(group)) as u64;
    let pages = limits.pages.iter().enumerate();
    let cache = pages
        .map(|(group, &pages)| {
            position(group).saturating_mul(PAGE as u64).saturating_mul(pages as u64)
        })
        .fold(0, u64::saturating_add);
    let buffers = plan
        .buffers
        .iter()
        .map(|b| (4 * b.width as u64).saturating_mul(limits.rows_of(b.rows) as u64))
        .fold(0, u64::saturating_add);
    let states = plan
        .states
        .iter()
        .map(|state| state_bytes(state, limits.sequences.saturating_add(limits.snapshots)));
    let buffers = states.fold(buffers.saturating_add(scratch), u64::saturating_add);
    let needed = weights.saturating_add(cache).saturating_add(buffers);
    if needed <= available {
        return Ok(());
    }
    let all_groups: u64 = (0..plan.groups.len()).map(position).sum();
    let positions = available.saturating_sub(weights.saturating_add(buffers)) / all_groups.max(1);
    Err(device.fail(format!(
        "the model needs {} MiB ({} for weights, {} for the KV cache, {} for buffers), but only {} are \
         available; {}",
        needed / MIB,
        weights / MIB,
        cache / MIB,
        buffers / MIB,
        available / MIB,
        fitting(positions / PAGE as u64)
    )))
}
