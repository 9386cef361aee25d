//! The size of a GPU's memory, which wgpu does not report, but Vulkan does.

/// Bytes of the largest heap of device memory.
#[cfg(not(any(target_vendor = "apple", target_family = "wasm")))]
pub(crate) fn of(adapter: &wgpu::Adapter) -> Option<u64> {
    // SAFETY: the handles are only read, and the guard keeps them alive
    let vulkan = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    // SAFETY: the physical device belongs to this instance, and the call only reads
    let properties = unsafe {
        vulkan
            .shared_instance()
            .raw_instance()
            .get_physical_device_memory_properties(vulkan.raw_physical_device())
    };
    let local = |flags: u32| flags & 1 != 0; // VK_MEMORY_HEAP_DEVICE_LOCAL_BIT
    properties
        .memory_heaps
        .iter()
        .take(properties.memory_heap_count as usize)
        .filter(|heap| local(heap.flags.as_raw()))
        .map(|heap| heap.size)
        .max()
}

/// The recommended working set of Metal is not available through wgpu, and browsers tell no size.
#[cfg(any(target_vendor = "apple", target_family = "wasm"))]
pub(crate) fn of(_: &wgpu::Adapter) -> Option<u64> {
    None
}
