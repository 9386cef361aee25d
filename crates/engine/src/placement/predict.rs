//! The predicted speed of a placed model.

use std::sync::Arc;

use pelton_graph::{Backend, Limits, Plan};
use pelton_place::{HostParts, Prediction, Work, predict};

use super::rates::KnownRates;

/// The devices of a model.
pub(super) struct Placed<'a> {
    /// The part of each device, in the order in which a pass goes through them.
    pub(super) parts: &'a [(&'a dyn Backend, Plan)],
    /// The GPUs with feed-forwards on the CPU, which are the last devices.
    pub(super) host: &'a [Arc<HostParts>],
}

/// The speed of a text that fills half of the context, if the rates of all devices are known.
pub(super) fn speed(
    placed: &Placed<'_>,
    limits: &Limits,
    rates: &KnownRates,
) -> Option<Prediction> {
    let &Placed { parts, host } = placed;
    let (depth, kv) = (limits.context / 2, limits.kv);
    let of_gpus = parts.len().saturating_sub(host.len());
    let mut devices: Vec<(&dyn Backend, Work, &Plan)> = Vec::new();
    for (i, (device, part)) in parts.iter().enumerate() {
        let mut work = match i.checked_sub(of_gpus).and_then(|at| host.get(at)) {
            None => Work::of(part, 1, depth, kv),
            Some(gpu) => {
                let [own, of_cpu] = gpu.works(part, depth, kv);
                let cpu = gpu.cpu().as_ref();
                match devices.iter_mut().find(|(other, ..)| other.name() == cpu.name()) {
                    Some((_, work, _)) => *work = work.plus(of_cpu),
                    None => devices.insert(0, (cpu, of_cpu, part)),
                }
                own
            }
        };
        // a row comes from the device before, and its token goes from the last device to the first
        let is_last = i > 0 && i + 1 == parts.len();
        work.hops += usize::from(i > 0) + usize::from(is_last);
        devices.push((*device, work, part));
    }
    let of = |(device, work, part): (&dyn Backend, Work, &Plan)| {
        (device.name().to_owned(), work, rates.of_plan(device, part))
    };
    let devices: Vec<_> = devices.into_iter().map(of).collect();
    predict(&devices, depth, limits.rows)
}
