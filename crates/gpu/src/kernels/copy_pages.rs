//! Copies of pages within the caches of a group: one dispatch for each buffer, whatever the number
//! of pages. Beams that part copy a page of each layer in every step.

use std::{
    collections::hash_map::{Entry, HashMap},
    sync::Arc,
};

use minijinja::context;
use pelton_graph::{Error, Plan};

use crate::{
    device::{BufferList, Device, Kernel, KernelSource},
    kernels::template,
    lower::Cache,
};

/// Threads of a workgroup, each of which copies a vector.
const THREADS: u64 = 256;
/// Bytes of a vector.
const VECTOR: u64 = 16;
/// The most pages of a submission.
const MOST: usize = 512;

/// The copy of pages of one buffer.
#[derive(Debug)]
struct Copy {
    kernel: Arc<Kernel>,
    bindings: wgpu::BindGroup,
    /// Workgroups of a page.
    groups: u32,
}

/// The copies of pages of all cache groups.
#[derive(Debug)]
pub(crate) struct PageCopies {
    /// The buffers `[groups]` of each group.
    of_groups: Vec<Vec<Copy>>,
    pages: wgpu::Buffer,
}

/// The WGSL for pages of some vectors.
fn source_of(vectors: u64) -> Result<KernelSource, Error> {
    template::render("copy_pages.wgsl", context! { page => vectors, threads => THREADS })
}

impl PageCopies {
    /// For the caches of a plan. A page has whole vectors, as heads have 64 positions in a page.
    pub(crate) fn new(device: &Device, plan: &Plan, caches: &[Cache]) -> Result<Self, Error> {
        let pages = device.buffer("pages to copy", 8 * MOST as u64)?;
        let mut kernels: HashMap<u64, (KernelSource, Arc<Kernel>)> = HashMap::new();
        let mut of_groups: Vec<Vec<Copy>> = (0..plan.groups.len()).map(|_| Vec::new()).collect();
        for (cache, shape) in caches.iter().zip(&plan.caches) {
            for (buffer, bytes) in cache.buffers() {
                let vectors = bytes / VECTOR;
                let (source, kernel) = match kernels.entry(vectors) {
                    Entry::Occupied(of) => of.into_mut(),
                    Entry::Vacant(of) => {
                        let source = source_of(vectors)?;
                        let kernel = Arc::new(device.kernel("copy_pages", &source)?);
                        of.insert((source, kernel))
                    }
                };
                let own = BufferList::of([("cache", buffer), ("pages", &pages)]);
                let own = own.in_order("copy_pages", source)?;
                of_groups[shape.group].push(Copy {
                    bindings: device.bind("copy_pages", kernel, &own)?,
                    kernel: Arc::clone(kernel),
                    groups: vectors.div_ceil(THREADS) as u32,
                });
            }
        }
        Ok(Self { of_groups, pages })
    }

    /// Submits copies `[from, to]` of pages of a group. No page is both copied and a copy.
    pub(crate) fn submit(
        &self,
        device: &Device,
        group: usize,
        pages: &[[u32; 2]],
    ) -> Result<(), Error> {
        for pages in pages.chunks(MOST) {
            device.queue.write_buffer(&self.pages, 0, bytemuck::cast_slice(pages));
            let mut encoder = device.device.create_command_encoder(&Default::default());
            let mut compute = encoder.begin_compute_pass(&Default::default());
            for Copy { kernel, bindings, groups } in self.of_groups.get(group).into_iter().flatten()
            {
                kernel.record(&mut compute, bindings, [*groups, pages.len() as u32, 1]);
            }
            drop(compute);
            device.queue.submit([encoder.finish()]);
        }
        device.check()
    }
}

/// The kernel for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    vec![("pages of 10 vectors".to_owned(), source_of(10).unwrap())]
}
