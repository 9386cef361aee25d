//! Memory of the host that a GPU copies to and from in the middle of a pass, or reads
//! while a kernel runs.
//!
//! Vulkan's memory stays mapped, and the host reads and writes it without a call of the driver.
//! Elsewhere, and where the memory is not coherent, it is a buffer that is mapped each time, and
//! a write to the queue.

use std::{
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering, fence},
};

use pelton_graph::Error;

use super::Device;

/// Memory to which the GPU copies values for the host.
#[derive(Debug)]
pub(crate) struct Inbox {
    buffer: wgpu::Buffer,
    mapped: Option<Mapped>,
}

/// Memory from which the GPU copies values of the host, or a running kernel reads them. They come
/// after a header, whose first word is the number of words for a kernel.
#[derive(Debug)]
pub(crate) struct Outbox {
    buffer: wgpu::Buffer,
    mapped: Option<Mapped>,
}

impl Inbox {
    /// An inbox of so many bytes, which stays mapped if the driver allows that and
    /// `lasting` asks for it.
    pub(crate) fn new(device: &Device, bytes: u64, lasting: bool) -> Result<Self, Error> {
        let usage = wgpu::BufferUsages::COPY_DST;
        let uses = wgpu::BufferUses::MAP_READ
            | wgpu::BufferUses::COPY_DST
            | wgpu::BufferUses::STORAGE_READ_ONLY;
        let bound = usage | wgpu::BufferUsages::STORAGE;
        if let Some((buffer, mapped)) =
            lasting.then(|| Mapped::new(device, bytes, bound, uses)).flatten()
        {
            return Ok(Self { buffer, mapped: Some(mapped) });
        }
        let usage = usage | wgpu::BufferUsages::MAP_READ;
        let buffer = device.buffer_for("values for the host", bytes, usage)?;
        Ok(Self { buffer, mapped: None })
    }

    /// Records a copy of the first `bytes` of a buffer.
    pub(crate) fn receive(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        from: &wgpu::Buffer,
        bytes: u64,
    ) {
        encoder.copy_buffer_to_buffer(from, 0, &self.buffer, 0, bytes);
        if self.mapped.is_some() {
            let state = wgpu::BufferUses::MAP_READ;
            let read = wgpu::BufferTransition { buffer: &self.buffer, state };
            encoder.transition_resources([read].into_iter(), std::iter::empty());
        }
    }

    /// The memory, if it stays mapped. A kernel to which it is bound begins when the
    /// copies to it have ended.
    pub(crate) fn lasting(&self) -> Option<&wgpu::Buffer> {
        self.mapped.as_ref().map(|_| &self.buffer)
    }

    /// Asks for the first `bytes`, after the submission of the copy.
    pub(crate) fn request(&self, bytes: u64) {
        if self.mapped.is_none() {
            self.buffer.slice(..bytes).map_async(wgpu::MapMode::Read, |_| {});
        }
    }

    /// Takes what was asked for, once the submission has ended; `ended` is false if it
    /// cannot be waited for.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub(crate) fn take(
        &mut self,
        device: &Device,
        out: &mut [u8],
        ended: bool,
    ) -> Result<(), Error> {
        if let Some(mapped) = &self.mapped {
            return match ended {
                true => mapped.read(&self.buffer, out).ok_or_else(|| gone(device)),
                false => Ok(()),
            };
        }
        let read = match ended {
            true => {
                let view = self.buffer.slice(..out.len() as u64).get_mapped_range();
                view.map(|view| out.copy_from_slice(&view))
                    .map_err(|error| device.fail(error.to_string()))
            }
            false => Ok(()),
        };
        self.buffer.unmap();
        read
    }
}

impl Outbox {
    /// Words of the header: values are aligned as bindings are.
    pub(crate) const HEADER: usize = 4;
    const HEADER_BYTES: usize = 4 * Self::HEADER;

    /// Bytes of an outbox for so many bytes of values.
    pub(crate) const fn bytes(values: u64) -> u64 {
        values.saturating_add(Self::HEADER_BYTES as u64)
    }

    /// An outbox for so many bytes, as [`Inbox::new`].
    pub(crate) fn new(device: &Device, bytes: u64, lasting: bool) -> Result<Self, Error> {
        let bytes = Self::bytes(bytes);
        let usage = wgpu::BufferUsages::COPY_SRC;
        let uses = wgpu::BufferUses::MAP_WRITE
            | wgpu::BufferUses::COPY_SRC
            | wgpu::BufferUses::STORAGE_READ_WRITE;
        let bound = usage | wgpu::BufferUsages::STORAGE;
        if let Some((buffer, mapped)) =
            lasting.then(|| Mapped::new(device, bytes, bound, uses)).flatten()
        {
            return Ok(Self { buffer, mapped: Some(mapped) });
        }
        let usage = usage | wgpu::BufferUsages::COPY_DST;
        let buffer = device.buffer_for("values of the host", bytes, usage)?;
        Ok(Self { buffer, mapped: None })
    }

    /// Lays values in, for a copy that is submitted afterwards. Earlier copies must have ended.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub(crate) fn put(&mut self, device: &Device, values: &[u8]) -> Result<(), Error> {
        match &self.mapped {
            Some(_) => self.lay(device, 0, values),
            None => {
                device.queue.write_buffer(&self.buffer, Self::HEADER_BYTES as u64, values);
                Ok(())
            }
        }
    }

    /// Lays values in for a kernel that runs and waits for a [word](Word) of the host.
    /// It must stay mapped.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub(crate) fn hand_over(&mut self, device: &Device, values: &[u8]) -> Result<(), Error> {
        self.lay(device, (values.len() / 4) as u32, values)
    }

    fn lay(&self, device: &Device, count: u32, values: &[u8]) -> Result<(), Error> {
        let laid = self.mapped.as_ref().and_then(|mapped| {
            mapped.write(&self.buffer, 0, &count.to_ne_bytes())?;
            mapped.write(&self.buffer, Self::HEADER_BYTES, values)
        });
        laid.ok_or_else(|| gone(device))
    }

    /// Records a copy of the first `bytes` to a buffer.
    pub(crate) fn send(&self, encoder: &mut wgpu::CommandEncoder, to: &wgpu::Buffer, bytes: u64) {
        encoder.copy_buffer_to_buffer(&self.buffer, Self::HEADER_BYTES as u64, to, 0, bytes);
    }

    /// The memory, if it stays mapped.
    pub(crate) fn lasting(&self) -> Option<&wgpu::Buffer> {
        self.mapped.as_ref().map(|_| &self.buffer)
    }
}

/// A word that the host and a running kernel share: one of them sets it, and the other one reads
/// it.
#[derive(Debug)]
pub(crate) struct Word {
    buffer: wgpu::Buffer,
    mapped: Mapped,
}

impl Word {
    /// A word of 0 that the host sets; `None` where no such memory stays mapped.
    pub(crate) fn of_host(device: &Device) -> Option<Self> {
        Self::new(device, wgpu::BufferUses::MAP_WRITE)
    }

    /// A word of 0 that a kernel sets, in memory that the host reads fast; `None` as above.
    pub(crate) fn of_gpu(device: &Device) -> Option<Self> {
        Self::new(device, wgpu::BufferUses::MAP_READ)
    }

    fn new(device: &Device, map: wgpu::BufferUses) -> Option<Self> {
        let uses = map | wgpu::BufferUses::STORAGE_READ_WRITE;
        let (buffer, mapped) = Mapped::new(device, 4, wgpu::BufferUsages::STORAGE, uses)?;
        Some(Self { buffer, mapped })
    }

    /// The buffer, an `atomic<u32>` of kernels.
    pub(crate) const fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// Reads it.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub(crate) fn get(&self, device: &Device) -> Result<u32, Error> {
        self.with(|word| word.load(Ordering::Acquire)).ok_or_else(|| gone(device))
    }

    /// Sets it, after all that the host has written before. A GPU's own memory may gather writes of
    /// the host, and lets go of them at a fence.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub(crate) fn set(&self, device: &Device, value: u32) -> Result<(), Error> {
        fence(Ordering::SeqCst);
        let set = self.with(|word| word.store(value, Ordering::Release));
        fence(Ordering::SeqCst);
        set.ok_or_else(|| gone(device))
    }

    fn with<T>(&self, call: impl FnOnce(&AtomicU32) -> T) -> Option<T> {
        with(&self.buffer, || {
            // SAFETY: the memory has a word, aligned as buffers are, `with` keeps it,
            // and all uses are atomic
            call(unsafe { AtomicU32::from_ptr(self.mapped.memory.cast().as_ptr()) })
        })
    }
}

fn gone(device: &Device) -> Error {
    device.fail("the memory that it shares with the host is gone".to_owned())
}

/// The mapped memory of a buffer. It is valid as long as the buffer has its memory, which a
/// lost device takes away.
#[derive(Debug)]
struct Mapped {
    memory: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to no thread
unsafe impl Send for Mapped {}

impl Mapped {
    #[cfg(not(any(target_vendor = "apple", target_family = "wasm")))]
    fn new(
        device: &Device,
        bytes: u64,
        usage: wgpu::BufferUsages,
        uses: wgpu::BufferUses,
    ) -> Option<(wgpu::Buffer, Self)> {
        use wgpu::hal::{Device as _, api::Vulkan};

        let size = bytes.max(4).next_multiple_of(4);
        let label = Some("values between the host and the GPU");
        let descriptor = wgpu::hal::BufferDescriptor {
            label,
            size,
            usage: uses,
            memory_flags: wgpu::hal::MemoryFlags::PREFER_COHERENT,
        };
        // SAFETY: the handle is used for one buffer, and the guard keeps the device alive
        let vulkan = unsafe { device.device.as_hal::<Vulkan>() }?;
        // SAFETY: the size is not 0, and the buffer goes to the device that it is of
        let buffer = unsafe { vulkan.create_buffer(&descriptor) }.ok()?;
        // SAFETY: the buffer has these bytes and can be mapped
        let mapping = unsafe { vulkan.map_buffer(&buffer, 0..size) };
        let Some(mapping) = mapping.ok().filter(|mapping| mapping.is_coherent) else {
            // SAFETY: no command has used it
            unsafe { vulkan.destroy_buffer(buffer) };
            return None;
        };
        let len = usize::try_from(size).ok()?;
        // SAFETY: the mapping has these bytes, and nothing else uses them yet
        unsafe { mapping.ptr.as_ptr().write_bytes(0, len) };
        drop(vulkan);
        let descriptor = wgpu::BufferDescriptor { label, size, usage, mapped_at_creation: false };
        // SAFETY: the buffer is of this device and this size, allows the usage, and
        // is filled with zeros
        let buffer = unsafe { device.device.create_buffer_from_hal::<Vulkan>(buffer, &descriptor) };
        Some((buffer, Self { memory: mapping.ptr, len }))
    }

    /// Metal's devices share their memory with the host, and browsers have no such memory.
    #[cfg(any(target_vendor = "apple", target_family = "wasm"))]
    fn new(
        _: &Device,
        _: u64,
        _: wgpu::BufferUsages,
        _: wgpu::BufferUses,
    ) -> Option<(wgpu::Buffer, Self)> {
        None
    }

    /// Copies from the memory; `None` if it is gone.
    fn read(&self, buffer: &wgpu::Buffer, out: &mut [u8]) -> Option<()> {
        assert!(out.len() <= self.len, "more values than the memory has");
        // SAFETY: the memory has these bytes, and `with` keeps it
        with(buffer, || unsafe {
            self.memory.copy_to_nonoverlapping(NonNull::from(&mut *out).cast(), out.len());
        })
    }

    /// Copies to the memory from a byte on; `None` if it is gone.
    fn write(&self, buffer: &wgpu::Buffer, at: usize, values: &[u8]) -> Option<()> {
        assert!(at + values.len() <= self.len, "more values than the memory has");
        // SAFETY: as above
        with(buffer, || unsafe {
            let to = self.memory.add(at);
            to.copy_from_nonoverlapping(NonNull::from(values).cast(), values.len());
        })
    }
}

/// Calls a function while the buffer cannot lose its memory; `None` if it has lost it.
#[cfg(not(any(target_vendor = "apple", target_family = "wasm")))]
fn with<T>(buffer: &wgpu::Buffer, call: impl FnOnce() -> T) -> Option<T> {
    // SAFETY: the handle is not used, and its guard keeps the memory
    let guard = unsafe { buffer.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let result = call();
    drop(guard);
    Some(result)
}

/// Nothing is mapped here.
#[cfg(any(target_vendor = "apple", target_family = "wasm"))]
fn with<T>(_: &wgpu::Buffer, _: impl FnOnce() -> T) -> Option<T> {
    None
}

#[cfg(test)]
mod tests {
    use pelton_testing::{Need, skip};

    use super::*;
    use crate::device::{Checks, adapters};

    /// Values come back as they were sent, whether the memory stays mapped or not.
    #[test]
    fn values_come_back() {
        let Some(adapter) = adapters().into_iter().next() else {
            return skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        };
        let device = Device::open(&adapter, Checks::default()).unwrap();
        for lasting in [true, false] {
            let own = device.buffer("values", 64).unwrap();
            let (outbox, inbox) =
                (Outbox::new(&device, 64, lasting), Inbox::new(&device, 64, lasting));
            let (mut outbox, mut inbox) = (outbox.unwrap(), inbox.unwrap());
            let is_vulkan = device.device.adapter_info().backend == wgpu::Backend::Vulkan;
            let expected = lasting && is_vulkan;
            assert_eq!([inbox.mapped.is_some(), outbox.mapped.is_some()], [expected; 2]);
            for round in 0..5_u8 {
                let values: Vec<u8> = (0..48).map(|i| 3 * i + round).collect();
                outbox.put(&device, &values).unwrap();
                let mut encoder = device.device.create_command_encoder(&Default::default());
                outbox.send(&mut encoder, &own, 48);
                inbox.receive(&mut encoder, &own, 48);
                let index = device.queue.submit([encoder.finish()]);
                inbox.request(48);
                device.wait_until(&device.submission(index)).unwrap();
                let mut found = [0; 48];
                inbox.take(&device, &mut found, true).unwrap();
                assert_eq!(found[..], values);
            }
        }
    }

    /// A device that has lost its memory gives an error.
    #[test]
    fn memory_that_is_gone() {
        let Some(adapter) = adapters().into_iter().next() else {
            return skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        };
        let device = Device::open(&adapter, Checks::default()).unwrap();
        let mut outbox = Outbox::new(&device, 64, true).unwrap();
        let mut inbox = Inbox::new(&device, 64, true).unwrap();
        if inbox.mapped.is_some() {
            outbox.buffer.destroy();
            inbox.buffer.destroy();
            assert!(outbox.put(&device, &[1; 4]).is_err());
            assert!(inbox.take(&device, &mut [0; 4], true).is_err());
        }
    }
}
