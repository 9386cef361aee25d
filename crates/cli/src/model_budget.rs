//! The memory for a model on the device that would run it.

use std::fmt;

use pelton::{Device, cpu::SystemMemory};

/// The share of a memory that a model may take: the rest is for its context.
const SHARE: f64 = 0.7;

/// The memory for a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelBudget {
    /// Bytes of the memory that is counted.
    memory: u64,
    /// The GPU's name; `None` for the memory that the system has free.
    gpu: Option<String>,
}

/// The facts about a GPU that decide.
#[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "tests run it everywhere"))]
struct GpuMemory {
    name: String,
    bytes: Option<u64>,
    /// Whether it has memory of its own.
    is_discrete: bool,
}

impl ModelBudget {
    /// The memory for a model on a device, where the system or the driver says it.
    pub(crate) fn of(device: Device) -> Option<Self> {
        Self::within(SystemMemory::read().available, gpu(device))
    }

    /// A GPU without memory of its own takes the system's, at most what the driver lets it take.
    fn within(free: Option<u64>, gpu: Option<GpuMemory>) -> Option<Self> {
        let of_system = free.map(|memory| Self { memory, gpu: None });
        let Some(GpuMemory { name, bytes: Some(memory), is_discrete }) = gpu else {
            return of_system;
        };
        match of_system {
            Some(system) if !is_discrete && system.memory < memory => Some(system),
            _ => Some(Self { memory, gpu: Some(name) }),
        }
    }

    /// Bytes of the whole memory.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// Bytes for the model's file.
    pub(crate) fn bytes(&self) -> u64 {
        (self.memory as f64 * SHARE) as u64
    }
}

impl fmt::Display for ModelBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = SHARE * 100.0;
        match &self.gpu {
            Some(name) => write!(f, "{percent}% of the memory of {name}"),
            None => write!(f, "{percent}% of the free memory"),
        }
    }
}

/// The GPU on which a model would run.
#[cfg(feature = "gpu")]
fn gpu(device: Device) -> Option<GpuMemory> {
    use pelton::gpu::{Kind, choose};
    let adapter = match device {
        Device::Auto => choose(None),
        Device::Gpu(number) | Device::GpuAndCpu(number) => choose(number),
        // the sum is of the first one
        Device::Gpus(gpus) => choose(gpus.numbers().next()),
        _ => return None,
    };
    let adapter = adapter.ok()?;
    let is_discrete = adapter.kind() == Kind::Discrete;
    Some(GpuMemory { name: adapter.name().to_owned(), bytes: adapter.memory(), is_discrete })
}

#[cfg(not(feature = "gpu"))]
fn gpu(_: Device) -> Option<GpuMemory> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_device_that_runs_counts() {
        let gpu = |bytes, is_discrete| Some(GpuMemory { name: "G".into(), bytes, is_discrete });
        let of = |free, gpu| ModelBudget::within(free, gpu).map(|b| (b.bytes(), b.to_string()));
        let system = |bytes| Some((bytes, "70% of the free memory".to_owned()));
        let on_gpu = |bytes| Some((bytes, "70% of the memory of G".to_owned()));
        assert_eq!(of(Some(1000), None), system(700));
        assert_eq!(of(None, None), None);
        // much memory next to a small GPU does not make the model larger, nor the other way round
        assert_eq!(of(Some(1000), gpu(Some(100), true)), on_gpu(70));
        assert_eq!(of(Some(100), gpu(Some(1000), true)), on_gpu(700));
        assert_eq!(of(Some(100), gpu(Some(1000), false)), system(70));
        assert_eq!(of(Some(1000), gpu(Some(100), false)), on_gpu(70));
        // Metal does not tell
        assert_eq!(of(Some(1000), gpu(None, false)), system(700));
        assert_eq!(of(None, gpu(Some(100), false)), on_gpu(70));
    }
}
