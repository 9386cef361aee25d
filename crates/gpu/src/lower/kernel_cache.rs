//! The kernels of a load.

use std::{collections::HashMap, sync::Arc};

use pelton_graph::Error;

use crate::device::{Device, Kernel, KernelSource};

/// The kernels of a load by their source, so that steps with equal kernels share one pipeline.
#[derive(Debug, Default)]
pub(crate) struct KernelCache(HashMap<String, Arc<Kernel>>);

impl KernelCache {
    /// The kernel of a source, still to be compiled if it is new.
    pub(super) fn of(
        &mut self,
        device: &Device,
        label: &str,
        source: &KernelSource,
    ) -> Arc<Kernel> {
        if let Some(kernel) = self.0.get(source.text()) {
            return Arc::clone(kernel);
        }
        let kernel = Arc::new(device.kernel_to_compile(label, source));
        self.0.insert(source.text().to_owned(), Arc::clone(&kernel));
        kernel
    }

    /// Compiles the kernels that are not compiled yet.
    ///
    /// # Errors
    /// [`Error::Device`] for a kernel that the driver refuses.
    pub(crate) fn compile(&self, device: &Device) -> Result<(), Error> {
        let kernels: Vec<Arc<Kernel>> = self.0.values().cloned().collect();
        device.compile_all(&kernels)
    }
}
