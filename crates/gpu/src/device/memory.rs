//! The memory of a GPU, which wgpu does not report, but Vulkan does.

/// The largest heap of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heap {
    /// Its bytes.
    pub(crate) size: u64,
    /// Bytes that other programs and this one leave, by VK_EXT_memory_budget; `None` without it.
    pub(crate) free: Option<u64>,
}

#[cfg(not(any(target_vendor = "apple", target_family = "wasm")))]
impl Heap {
    pub(crate) fn of(adapter: &wgpu::Adapter) -> Option<Self> {
        use ash::{ext::memory_budget, vk};

        // SAFETY: the handles are only read, and the guard keeps them alive
        let vulkan = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
        let (shared, device) = (vulkan.shared_instance(), vulkan.raw_physical_device());
        let instance = shared.raw_instance();
        let has_budget = shared.instance_api_version() >= vk::API_VERSION_1_1
            && vulkan.physical_device_capabilities().supports_extension(memory_budget::NAME);
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let heaps = if has_budget {
            let mut all = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
            // SAFETY: the physical device belongs to this instance, whose version has the call. The
            // call writes the two structures, which live on
            unsafe { instance.get_physical_device_memory_properties2(device, &mut all) };
            all.memory_properties
        } else {
            // SAFETY: the physical device belongs to this instance, and the call only reads
            unsafe { instance.get_physical_device_memory_properties(device) }
        };
        let local = heaps.memory_heaps.iter().take(heaps.memory_heap_count as usize).enumerate();
        let local =
            local.filter(|(_, heap)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
        let (at, heap) = local.max_by_key(|(_, heap)| heap.size)?;
        // drivers that report no budget leave zeros
        let reported = budget.heap_budget[at] > 0;
        let free = budget.heap_budget[at].saturating_sub(budget.heap_usage[at]);
        Some(Self { size: heap.size, free: reported.then_some(free) })
    }
}

/// The recommended working set of Metal is not available through wgpu, and browsers tell no size.
#[cfg(any(target_vendor = "apple", target_family = "wasm"))]
impl Heap {
    pub(crate) fn of(_: &wgpu::Adapter) -> Option<Self> {
        None
    }
}
