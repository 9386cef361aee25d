//! The upload of a plan's tensors to the GPU.

use std::{sync::Arc, thread};

use pelton_graph::{Error, Plan, Weight, WeightId};
use pelton_weights::Checkpoint;

use crate::{
    device::Device,
    weights::{
        Sources,
        input_major::{self, InputMajor, all_groups, input_major_layout_of, places},
        matrix::Matrix,
        ring::{Chunk, Origin, Ring, STAGING_BYTES},
        shards::{matrix_bytes, new_matrix},
        source::{Source, decoded},
        stream::{Places, Stream},
    },
};

/// A weight on the GPU.
#[derive(Debug)]
pub(crate) enum Resident {
    /// A norm's weight, a bias or another small tensor, in f32.
    Vector(wgpu::Buffer),
    /// A matrix, or several of equal shape one after the other, in the stored format.
    Matrix(Arc<Matrix>),
}

/// All weights of a plan.
#[derive(Debug)]
pub(crate) struct Weights {
    all: Vec<Resident>,
    /// The matrices in input-major order, of each group of a step.
    lines: Vec<InputMajor>,
}

impl Weights {
    /// Repacks and uploads every weight that no loaded plan of the checkpoint has: of a fused
    /// tensor its own rows. Those of the host have places without content, and a stream to them.
    /// `progress` is called with the uploaded bytes of the file and the total of bytes.
    pub(crate) fn load(
        device: &Device,
        plan: &Plan,
        sources: Sources<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(Self, Option<Stream>), Error> {
        let Sources { checkpoint, matrices: shared } = sources;
        let all: u64 = plan
            .weights
            .iter()
            .filter_map(|w| w.dtype.bytes_of(w.len()))
            .map(|bytes| bytes as u64)
            .sum();
        let mut done = 0;
        let mut upload = Upload::new(device)?;
        let decoded = decoded(plan);
        let host = Places::new(plan);
        let mut made: Vec<Arc<Matrix>> = Vec::new();
        let mut residents = Vec::with_capacity(plan.weights.len());
        for ((i, weight), decoded) in plan.weights.iter().enumerate().zip(decoded) {
            let tensor = weight.tensor(checkpoint)?;
            let bytes = weight.dtype.bytes_of(weight.len()).unwrap_or(0) as u64;
            if let Some(at) = host.of[i] {
                // places are in the order of their first weights
                if made.len() == at {
                    made.push(Arc::new(new_matrix(device, weight)?));
                }
                residents.push(Resident::Matrix(Arc::clone(&made[at])));
                done += bytes;
                continue;
            }
            if decoded {
                residents.push(Resident::Vector(new_vector(device, weight, &tensor.decode())?));
                continue;
            }
            if let Some(matrix) = shared.find(checkpoint, weight) {
                residents.push(Resident::Matrix(matrix));
                done += bytes;
                continue;
            }
            let row = bytes / (weight.rows * weight.count()).max(1) as u64;
            let origin = Origin::new(checkpoint, weight);
            let matrix = upload.matrix(&origin, weight, &mut |rows| {
                progress(done + rows as u64 * row, all);
            })?;
            done += bytes;
            let matrix = Arc::new(matrix);
            residents.push(Resident::Matrix(matrix));
        }
        let lines = upload.input_major(plan, checkpoint)?;
        let ring = upload.finish()?;
        share(plan, &residents, (&host, sources));
        let stream = match plan.host.is_empty() {
            true => None,
            false => {
                let matrix = |i: usize| match &residents[i] {
                    Resident::Matrix(matrix) => host.of[i].map(|_| matrix.as_ref()),
                    Resident::Vector(_) => None,
                };
                Some(Stream::new(device, plan, checkpoint, &matrix, ring)?)
            }
        };
        Ok((Self { all: residents, lines }, stream))
    }

    /// The buffer of a weight in f32.
    pub(crate) fn vector(&self, id: WeightId) -> Result<&wgpu::Buffer, Error> {
        match &self.all[id.0] {
            Resident::Vector(buffer) => Ok(buffer),
            Resident::Matrix(_) => Err(unexpected("a matrix where a vector belongs")),
        }
    }

    /// Matrices in input-major order that a step multiplies together; `None` if they have none.
    pub(crate) fn input_major(&self, group: &[WeightId]) -> Option<&InputMajor> {
        self.lines.iter().find(|of| of.weights == group)
    }

    /// A matrix row by row.
    pub(crate) fn matrix(&self, id: WeightId) -> Result<&Matrix, Error> {
        match &self.all[id.0] {
            Resident::Matrix(matrix) => Ok(matrix),
            Resident::Vector(_) => Err(unexpected("a vector where a matrix belongs")),
        }
    }
}

fn unexpected(what: &str) -> Error {
    Error::Kernel { kernel: "weights".into(), what: what.into() }
}

/// Bytes of a plan's weights on the GPU.
pub(crate) fn resident_bytes(device: &Device, plan: &Plan) -> u64 {
    let host = Places::new(plan);
    let bytes = |((w, decoded), place): ((&Weight, bool), &Option<usize>)| match (decoded, place) {
        (_, Some(_)) => 0,
        (true, None) => 4 * w.len() as u64,
        (false, None) => matrix_bytes(device, w),
    };
    let ordered = effort_bytes(plan);
    let all = plan.weights.iter().zip(decoded(plan)).zip(&host.of);
    all.map(bytes).fold(ordered, u64::saturating_add)
}

/// Bytes of the places and the staging buffers of a plan's weights of the host.
pub(crate) fn streamed_bytes(device: &Device, plan: &Plan) -> u64 {
    match plan.host.is_empty() {
        true => 0,
        false => Places::new(plan).bytes(device, plan).saturating_add(STAGING_BYTES),
    }
}

/// Bytes of the matrices in another order than the file's, next to those.
pub(crate) fn effort_bytes(plan: &Plan) -> u64 {
    input_major::resident_bytes(plan)
}

/// Bytes of the matrices of a plan that loaded plans of the checkpoint have.
pub(crate) fn shared_bytes(device: &Device, plan: &Plan, sources: Sources<'_>) -> u64 {
    let host = Places::new(plan);
    let resident = plan.weights.iter().zip(&host.of).filter(|(_, place)| place.is_none());
    let shared = |w: &&Weight| sources.matrices.find(sources.checkpoint, w).is_some();
    resident.map(|(w, _)| w).filter(shared).map(|w| matrix_bytes(device, w)).sum()
}

/// Shares matrices with later plans over the same checkpoint.
fn share(plan: &Plan, residents: &[Resident], (host, sources): (&Places, Sources<'_>)) {
    let Sources { checkpoint, matrices } = sources;
    for ((weight, resident), place) in plan.weights.iter().zip(residents).zip(&host.of) {
        if let (Resident::Matrix(matrix), None) = (resident, place)
            && matrices.find(checkpoint, weight).is_none()
        {
            matrices.add(checkpoint, weight, matrix);
        }
    }
}

/// A weight in f32.
fn new_vector(device: &Device, weight: &Weight, values: &[f32]) -> Result<wgpu::Buffer, Error> {
    let values = Source::new(weight, values)?.all()?;
    let buffer = device.buffer(&weight.name, 4 * values.len() as u64)?;
    device.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&values));
    Ok(buffer)
}

/// The upload of the weights of a plan.
struct Upload<'a> {
    device: &'a Device,
    ring: Ring,
    threads: usize,
}

impl<'a> Upload<'a> {
    fn new(device: &'a Device) -> Result<Self, Error> {
        let threads = thread::available_parallelism().map_or(1, |n| n.get()).min(8);
        Ok(Self { device, ring: Ring::new(device)?, threads })
    }

    /// Repacks and copies a matrix; `progress` is called with the number of its rows that are
    /// on their way.
    fn matrix(
        &mut self,
        origin: &Origin,
        weight: &Weight,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Matrix, Error> {
        let matrix = new_matrix(self.device, weight)?;
        let mut done = 0;
        for shard in &matrix.shards {
            for chunk in Chunk::of_shard(self.device, origin, &matrix.layout, shard)? {
                self.ring.fill(self.device, &chunk)?;
                done += chunk.len();
                progress(done);
            }
        }
        Ok(matrix)
    }

    /// The matrices of a plan in input-major order.
    fn input_major(
        &mut self,
        plan: &Plan,
        checkpoint: &Checkpoint,
    ) -> Result<Vec<InputMajor>, Error> {
        let mut all = Vec::new();
        for group in all_groups(plan) {
            let weights = || group.iter().map(|id| plan.weight(*id));
            // a weight without such an order is in no group
            let lines: Vec<_> = weights().filter_map(input_major_layout_of).collect();
            let joined = InputMajor::new(self.device, plan, group.clone())?;
            for ((weight, lines), first) in weights().zip(&lines).zip(places(&lines).0) {
                let rows = Source::new(weight, weight.tensor(checkpoint)?.bytes)?.all()?;
                let packed = lines.packed(&rows, self.threads);
                self.ring.whole(self.device, &packed, &joined.buffer, first)?;
            }
            all.push(joined);
        }
        Ok(all)
    }

    /// Waits for all copies. The ring is for the weights of the host.
    fn finish(mut self) -> Result<Ring, Error> {
        self.ring.copy_all(self.device)?;
        self.device.queue.submit([]);
        self.device.wait()?;
        Ok(self.ring)
    }
}
