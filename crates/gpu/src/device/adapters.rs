//! The adapters of this machine.

use std::{fmt, sync::OnceLock};

use pelton_graph::Error;

use super::{memory::Heap, wait::block_on};

/// A GPU that can be opened through one graphics API.
#[derive(Clone, Debug)]
pub struct Adapter {
    pub(crate) inner: wgpu::Adapter,
    info: wgpu::AdapterInfo,
}

/// The kind of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that uses the CPU's memory.
    Integrated,
    /// A GPU of a virtual machine.
    Virtual,
    /// A driver that computes on the CPU.
    Software,
    /// Not reported by the driver.
    Unknown,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discrete => "discrete",
            Self::Integrated => "integrated",
            Self::Virtual => "virtual",
            Self::Software => "software",
            Self::Unknown => "unknown",
        })
    }
}

/// All adapters of Vulkan, Metal and DX12, sorted by kind: discrete GPUs first, software drivers
/// last.
pub fn adapters() -> Vec<Adapter> {
    let found = block_on(instance().enumerate_adapters(wgpu::Backends::all()));
    let mut all: Vec<Adapter> =
        found.into_iter().map(|inner| Adapter { info: inner.get_info(), inner }).collect();
    all.sort_by_key(|adapter| match adapter.kind() {
        Kind::Discrete => 0,
        Kind::Integrated => 1,
        Kind::Virtual => 2,
        Kind::Unknown => 3,
        Kind::Software => 4,
    });
    all
}

/// The other GPUs of an adapter's kind and interface, each once. Those without a number of their
/// bus are left out: nobody knows whether two of them are one GPU.
pub fn others_like(adapter: &Adapter) -> Vec<Adapter> {
    let is_alike = |other: &Adapter| {
        other.kind() == adapter.kind() && other.info.backend == adapter.info.backend
    };
    let mut seen = vec![String::new(), adapter.info.device_pci_bus_id.clone()];
    let mut others = adapters();
    others.retain(|other| {
        let bus = &other.info.device_pci_bus_id;
        let is_new = is_alike(other) && !seen[1].is_empty() && !seen.contains(bus);
        seen.push(bus.clone());
        is_new
    });
    others
}

/// The wgpu instance, one for the life of the process. Without it the drivers would be unloaded
/// with the last device, and some cannot be loaded again and again. NVIDIA's (580.159 on Linux)
/// runs out of thread-local storage, and then no device is found.
fn instance() -> &'static wgpu::Instance {
    static INSTANCE: OnceLock<wgpu::Instance> = OnceLock::new();
    INSTANCE.get_or_init(|| {
        wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: wgpu::Backends::VULKAN
                | wgpu::Backends::METAL
                | wgpu::Backends::DX12
                | wgpu::Backends::BROWSER_WEBGPU,
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        })
    })
}

impl Adapter {
    /// The name of the GPU; in a browser, which tells none, that of the interface.
    pub fn name(&self) -> &str {
        match self.info.name.as_str() {
            "" => "WebGPU",
            name => name,
        }
    }

    /// The kind of the GPU.
    pub fn kind(&self) -> Kind {
        match self.info.device_type {
            wgpu::DeviceType::DiscreteGpu => Kind::Discrete,
            wgpu::DeviceType::IntegratedGpu => Kind::Integrated,
            wgpu::DeviceType::VirtualGpu => Kind::Virtual,
            wgpu::DeviceType::Cpu => Kind::Software,
            wgpu::DeviceType::Other => Kind::Unknown,
        }
    }

    /// The graphics API: `Vulkan`, `Metal` or `Dx12`.
    pub fn interface(&self) -> String {
        format!("{:?}", self.info.backend)
    }

    /// The driver's name and version.
    pub fn driver(&self) -> String {
        format!("{} {}", self.info.driver, self.info.driver_info).trim().to_owned()
    }

    /// The least and the greatest subgroup width of a kernel.
    pub fn subgroup_widths(&self) -> (u32, u32) {
        (self.info.subgroup_min_size, self.info.subgroup_max_size)
    }

    /// Whether there are subgroup operations. A browser has them where it gives a device with them:
    /// wgpu 30 does not know that feature there (gfx-rs/wgpu#10146).
    pub(crate) fn has_subgroups(&self) -> bool {
        cfg!(target_family = "wasm") || self.inner.features().contains(wgpu::Features::SUBGROUP)
    }

    /// Whether kernels can compute with 16-bit floats.
    pub fn has_f16(&self) -> bool {
        self.inner.features().contains(wgpu::Features::SHADER_F16)
    }

    /// Whether there are matrix cores that the kernels support: products of f16 with sums in f32,
    /// of 16×16 or 8×8 matrices, and subgroups whose threads can wait for each other.
    pub fn has_matrix_cores(&self) -> bool {
        self.core().is_some()
    }

    /// The edge of the matrices that the matrix cores multiply, if the kernels support them.
    pub(crate) fn core(&self) -> Option<usize> {
        use wgpu::CooperativeScalarType::{F16, F32};
        let needed = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX
            | wgpu::Features::SUBGROUP_BARRIER
            | wgpu::Features::SHADER_F16;
        let listed = self.inner.cooperative_matrix_properties();
        let lists = |edge: &u32| {
            listed.iter().any(|p| {
                [p.m_size, p.n_size, p.k_size] == [*edge; 3] && (p.ab_type, p.cr_type) == (F16, F32)
            })
        };
        let edge = [16, 8].into_iter().find(lists)?;
        // tiles have memory and threads for subgroups of these widths
        let (least, most) = self.subgroup_widths();
        let widths = edge == 8 || (least >= 8 && most <= 64);
        (widths && self.inner.features().contains(needed)).then_some(edge as usize)
    }

    /// Whether workgroups of a running kernel can exchange data: coherent buffers, and barriers
    /// that order the memory of the device. On Metal a barrier orders that of a workgroup only.
    pub fn has_coherent_buffers(&self) -> bool {
        self.inner.features().contains(wgpu::Features::MEMORY_DECORATION_COHERENT)
            && self.info.backend != wgpu::Backend::Metal
    }

    /// Bytes of the GPU's memory, if the graphics API reports it, as Vulkan does.
    pub fn memory(&self) -> Option<u64> {
        Heap::of(&self.inner).map(|heap| heap.size)
    }

    /// Bytes that can be allocated at this time, as far as the graphics API tells: without
    /// VK_EXT_memory_budget all of the memory, whatever other programs have.
    pub fn free_memory(&self) -> Option<u64> {
        Heap::of(&self.inner).map(|heap| heap.free.unwrap_or(heap.size))
    }
}

/// The adapter with an index in [`adapters`]; without an index the first that is not a software
/// driver.
///
/// # Errors
///
/// [`Error::Device`] if there is no such adapter.
pub fn choose(number: Option<usize>) -> Result<Adapter, Error> {
    let all = adapters();
    let count = all.len();
    let missing = |what: String| Error::Device { device: "gpu".into(), what };
    match number {
        Some(n) if count > 0 => all.into_iter().nth(n).ok_or_else(|| {
            let last = if count > 1 { format!(" to {}", count - 1) } else { String::new() };
            missing(format!(
                "there is no GPU number {n}, expected 0{last} (`pelton devices` lists them)"
            ))
        }),
        _ => all.into_iter().find(|adapter| adapter.kind() != Kind::Software).ok_or_else(|| {
            let found = if count == 0 { "no GPU" } else { "only a GPU in software" };
            missing(format!("{found} was found through Vulkan, Metal or DX12"))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::adapters;
    use crate::testing::device;

    #[test]
    fn devices_can_be_opened_again_and_again() {
        let found = adapters().len();
        for _ in 0..40 {
            drop(device());
            assert_eq!(adapters().len(), found);
        }
    }
}
