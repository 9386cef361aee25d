//! Measurements of single kernels for tuning, which no model needs.

pub mod attention;
pub mod links;

use std::{sync::Arc, time::Instant};

use pelton_graph::Error;
use pelton_quant::DType;

pub use crate::kernels::cores_matmul::Tile;
use crate::{
    device::{Adapter, Checks, Device, Kernel},
    kernels::{
        cores_matmul::{CoresMatmul, ROOM},
        to_f16::{ToF16, padded},
    },
    weights::Layout,
};

/// The shape of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixShape {
    /// The format of the matrix.
    pub dtype: DType,
    /// Rows of the matrix: outputs.
    pub rows: usize,
    /// Elements of a row.
    pub k: usize,
    /// Rows of activations.
    pub batch: usize,
}

/// The most K splits of a measured product.
pub const MOST_SPLITS: usize = 8;

/// A GPU with matrix cores, for measurements.
#[derive(Debug)]
pub struct Bench {
    device: Arc<Device>,
}

/// A product whose operands are on the GPU.
#[derive(Debug)]
pub struct BenchProduct {
    device: Arc<Device>,
    matmul: CoresMatmul,
    batch: usize,
    activations: wgpu::Buffer,
    y: wgpu::Buffer,
    pass: wgpu::Buffer,
    planes: Vec<wgpu::Buffer>,
}

/// A product and the kernel for one tile.
#[derive(Debug)]
pub struct Tiled<'a> {
    product: &'a BenchProduct,
    kernel: Kernel,
    groups: [u32; 3],
}

impl Bench {
    /// Opens an adapter that has matrix cores. `checks` lets kernels check every index.
    pub fn open(adapter: &Adapter, checks: bool) -> Result<Self, Error> {
        let checks = Checks { indices: checks, ..Checks::default() };
        let device = Device::open(adapter, checks)?;
        match device.capabilities.matrix_cores {
            true => Ok(Self::of(device)),
            false => Err(device.fail("it has no matrix cores that kernels can use".into())),
        }
    }

    /// A GPU that has matrix cores.
    pub(crate) const fn of(device: Arc<Device>) -> Self {
        Self { device }
    }

    /// Uploads the operands of a product: the matrix in the format of a file, and `shape.batch`
    /// rows of activations, which are rounded to f16.
    pub fn product(
        &self,
        shape: &MatrixShape,
        matrix: &[u8],
        x: &[f32],
    ) -> Result<BenchProduct, Error> {
        let &MatrixShape { dtype, rows, k, batch } = shape;
        let device = &self.device;
        if dtype.bytes_of(k * rows) != Some(matrix.len()) || x.len() != k * batch {
            return Err(device.fail(format!(
                "a matrix of {} bytes and {} activations do not fit {shape:?}",
                matrix.len(),
                x.len()
            )));
        }
        let layout = Layout::of(dtype);
        let matmul = CoresMatmul {
            layout,
            k,
            rows,
            offset: 0,
            stride: rows,
            bias: false,
            activation: None,
            add: false,
            count_at: 0,
            splits: 1,
            slab_rows: 0,
            experts: None,
            fused_with: [None; 2],
            own_y: false,
            straight: false,
        }
        .straight_to(ROOM);
        let planes = layout.packed(matrix, rows, k);
        let planes =
            planes.iter().map(|plane| self.upload(plane)).collect::<Result<Vec<_>, Error>>()?;
        let product = BenchProduct {
            device: Arc::clone(device),
            matmul,
            batch,
            activations: device.buffer("activations", (batch * padded(k) * 2) as u64)?,
            y: device
                .buffer("y", (MOST_SPLITS * batch.next_multiple_of(ROOM) * rows * 4) as u64)?,
            pass: self.upload(bytemuck::bytes_of(&(batch as u32)))?,
            planes,
        };
        let x = self.upload(bytemuck::cast_slice(x))?;
        let prepare = ToF16 { k, per_row: 1, norm: None, partial: None }.kernel(device)?;
        product.dispatch(&prepare, &[&x, &product.activations], [batch as u32, 1, 1], 1)?;
        Ok(product)
    }

    fn upload(&self, bytes: &[u8]) -> Result<wgpu::Buffer, Error> {
        let buffer = self.device.buffer("operand", bytes.len() as u64)?;
        let whole = bytes.len() & !3;
        self.device.queue.write_buffer(&buffer, 0, &bytes[..whole]);
        if whole < bytes.len() {
            let mut last = [0; 4];
            last[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            self.device.queue.write_buffer(&buffer, whole as u64, &last);
        }
        Ok(buffer)
    }
}

impl BenchProduct {
    /// The tile that a model uses for this shape.
    pub fn tile(&self) -> Tile {
        self.matmul.tile(&self.device.capabilities, self.batch)
    }

    /// Compiles the kernel for a tile and a number of K splits, whose partial sums it leaves.
    pub fn by(&self, tile: &Tile, splits: usize) -> Result<Tiled<'_>, Error> {
        let [x, y, _] = tile.groups(self.batch, self.matmul.rows);
        let matmul =
            CoresMatmul { splits, slab_rows: self.batch.next_multiple_of(ROOM), ..self.matmul };
        let kernel = matmul.kernel(&self.device, tile)?;
        Ok(Tiled { product: self, kernel, groups: [x, y, splits as u32] })
    }

    /// Runs a kernel `times` times, and returns the seconds of all runs.
    fn dispatch(
        &self,
        kernel: &Kernel,
        buffers: &[&wgpu::Buffer],
        groups: [u32; 3],
        times: u32,
    ) -> Result<f64, Error> {
        let buffers: Vec<_> = buffers.iter().map(|b| b.as_entire_buffer_binding()).collect();
        let group = self.device.bind("measure", kernel, &buffers)?;
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        for _ in 0..times {
            kernel.record(&mut pass, &group, groups);
        }
        drop(pass);
        let commands = encoder.finish();
        self.device.wait()?;
        let begin = Instant::now();
        self.device.queue.submit([commands]);
        self.device.wait()?;
        Ok(begin.elapsed().as_secs_f64())
    }
}

impl Tiled<'_> {
    /// Computes the product `[batch, rows]` once.
    pub fn compute(&self) -> Result<Vec<f32>, Error> {
        let BenchProduct { device, y, batch, matmul, .. } = self.product;
        // NaN, so that an element that is not written shows
        let mut result = vec![f32::NAN; batch * matmul.rows];
        device.queue.write_buffer(y, 0, bytemuck::cast_slice(&result));
        self.seconds(1)?;
        let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
        let copy = device.buffer_for("copy", (result.len() * 4) as u64, usage)?;
        let mut encoder = device.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(y, 0, &copy, 0, copy.size());
        device.queue.submit([encoder.finish()]);
        device.read(&copy, bytemuck::cast_slice_mut(&mut result))?;
        Ok(result)
    }

    /// Seconds of the product: the mean of `times` in one submission.
    pub fn seconds(&self, times: u32) -> Result<f64, Error> {
        let BenchProduct { activations, y, pass, planes, .. } = self.product;
        let mut buffers = vec![activations, y, pass];
        buffers.extend(planes);
        let all = self.product.dispatch(&self.kernel, &buffers, self.groups, times)?;
        Ok(all / f64::from(times))
    }
}
