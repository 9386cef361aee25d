//! The opening of devices.

use std::sync::Arc;

use pelton_cpu::Cpu;
use pelton_graph::Backend;

use super::Devices;
#[cfg(feature = "gpu")]
use super::{KnownRates, MoreGpus};
use crate::{Device, Error};

/// Opens a device, and says why [`Auto`](Device::Auto) is no GPU; `threads` are for the CPU, and
/// whether it may repack weights.
pub(crate) fn open(
    device: Device,
    threads: usize,
    repack: bool,
) -> Result<(Devices, Option<String>), Error> {
    let own = Cpu::new(threads);
    let cpu = || -> Arc<dyn Backend> {
        let own = own.clone();
        Arc::new(if repack { own } else { own.in_file_order() })
    };
    #[cfg(feature = "gpu")]
    let next_to = |all, spills| {
        let mapped: Arc<dyn Backend> = Arc::new(own.clone().in_file_order());
        let rates = Arc::new(KnownRates::of_user());
        Devices { all, more: None, ram: Some(cpu()), mapped: Some(mapped), spills, rates }
    };
    match device {
        Device::Cpu => Ok((Devices::one(cpu()), None)),
        #[cfg(feature = "gpu")]
        Device::Gpu(number) | Device::GpuAndCpu(number) => {
            let gpu = open_gpu(number)?;
            let spills = matches!(device, Device::GpuAndCpu(_));
            Ok((next_to(vec![gpu], spills), None))
        }
        #[cfg(feature = "gpu")]
        Device::Gpus(gpus) => {
            let all = gpus.numbers().map(|number| open_gpu(Some(number)));
            let all = all.collect::<Result<_, Error>>()?;
            Ok((next_to(all, gpus.cpu), None))
        }
        #[cfg(feature = "gpu")]
        Device::Auto => match pelton_gpu::choose(None) {
            Ok(adapter) => {
                let gpu: Arc<dyn Backend> = Arc::new(pelton_gpu::Gpu::open(&adapter)?);
                let more = MoreGpus::new(move || open_like(&adapter));
                let devices = next_to(vec![gpu], true);
                Ok((Devices { more: Some(Arc::new(more)), ..devices }, None))
            }
            Err(error) => {
                let reason = match error {
                    pelton_graph::Error::Device { what, .. } => what,
                    other => other.to_string(),
                };
                Ok((Devices::one(cpu()), Some(reason)))
            }
        },
        #[cfg(not(feature = "gpu"))]
        Device::Gpu(_) | Device::GpuAndCpu(_) | Device::Gpus(_) => Err(Error::NoGpu),
        #[cfg(not(feature = "gpu"))]
        Device::Auto => {
            let reason = "this build has no GPU support".to_owned();
            Ok((Devices::one(cpu()), Some(reason)))
        }
    }
}

/// Opens a GPU by its number in the list.
#[cfg(feature = "gpu")]
fn open_gpu(number: Option<usize>) -> Result<Arc<dyn Backend>, Error> {
    Ok(Arc::new(pelton_gpu::Gpu::open(&pelton_gpu::choose(number)?)?))
}

/// Opens the GPUs after the first one that are of its kind: next to a GPU with memory of its own
/// none that shares the CPU's.
#[cfg(feature = "gpu")]
fn open_like(first: &pelton_gpu::Adapter) -> Vec<Arc<dyn Backend>> {
    let others = pelton_gpu::others_like(first).into_iter();
    let opened = others.filter_map(|adapter| match pelton_gpu::Gpu::open(&adapter) {
        Ok(gpu) => Some(Arc::new(gpu) as Arc<dyn Backend>),
        Err(error) => {
            tracing::warn!(%error, "a GPU is left out");
            None
        }
    });
    opened.collect()
}
