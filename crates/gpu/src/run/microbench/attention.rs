//! Attention of prompt rows alone, for each of its work splits.

use std::{sync::Arc, time::Instant};

use half::f16;
use pelton_graph::{Error, Input, KvType, Mask, PAGE, Row, pages_for};

use super::Bench;
pub use crate::kernels::attention::WorkSplit;
use crate::{
    device::{Device, Kernel},
    kernels::{
        attention::{Attention, tiles},
        rope_store::Caches,
    },
};

/// The shape of attention of a prompt's rows over an f16 cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Elements of a query, a key and a value.
    pub head_dim: usize,
    /// Positions that a row sees, if not all.
    pub window: Option<usize>,
}

/// Attention whose operands are on the GPU.
#[derive(Debug)]
pub struct Prompt {
    device: Arc<Device>,
    attention: Attention,
    words: Vec<Row>,
    rows: wgpu::Buffer,
    tables: wgpu::Buffer,
    q: wgpu::Buffer,
    keys: wgpu::Buffer,
    values: wgpu::Buffer,
    a: wgpu::Buffer,
}

/// Attention and the kernel of one work split.
#[derive(Debug)]
pub struct Split<'a> {
    prompt: &'a Prompt,
    kernel: Kernel,
    groups: [u32; 3],
    tiles: wgpu::Buffer,
}

impl Bench {
    /// Uploads the operands: queries `[rows, heads, head_dim]` of the `rows` last positions, and
    /// keys and values `[positions, kv_heads, head_dim]`, which lie in pages in another order.
    pub fn prompt(
        &self,
        shape: &Heads,
        rows: usize,
        [q, keys, values]: [&[f32]; 3],
    ) -> Result<Prompt, Error> {
        let &Heads { heads, kv_heads, head_dim, window } = shape;
        let positions = keys.len() / (kv_heads * head_dim).max(1);
        if q.len() != rows * heads * head_dim || keys.len() != values.len() || rows > positions {
            let what = format!("{} queries and {} keys for {shape:?}", q.len(), keys.len());
            return Err(self.device.fail(what));
        }
        let pages = pages_for(positions);
        // a permutation: an odd factor and a power of two
        let table: Vec<u32> = (0..pages.next_power_of_two() as u32)
            .map(|page| page.wrapping_mul(77) % pages.next_power_of_two() as u32)
            .collect();
        let caches = Caches { kv_heads, kv: KvType::F16, table: table.len() };
        let attention = Attention {
            heads,
            key_dim: head_dim,
            value_dim: head_dim,
            prefix: false,
            scale: 1.0 / (head_dim as f32).sqrt(),
            mask: Mask::Causal { window },
            softcap: None,
            sinks: false,
            alibi: None,
            caches,
        };
        let paged = |from: &[f32]| {
            let mut cache = vec![f16::NAN; table.len() * kv_heads * PAGE * head_dim];
            for (i, head) in from.chunks(head_dim).enumerate() {
                let (position, kv_head) = (i / kv_heads, i % kv_heads);
                let page = table[position / PAGE] as usize;
                let at = ((page * kv_heads + kv_head) * PAGE + position % PAGE) * head_dim;
                let to = &mut cache[at..at + head_dim];
                to.iter_mut().zip(head).for_each(|(to, from)| *to = f16::from_f32(*from));
            }
            cache
        };
        let words: Vec<Row> = (positions - rows..positions)
            .map(|position| Row { input: Input::Token(0), position: position as u32, slot: 0 })
            .collect();
        let row_words: Vec<[u32; 4]> = words.iter().map(|row| [0, row.position, 0, 0]).collect();
        Ok(Prompt {
            device: Arc::clone(&self.device),
            attention,
            words,
            rows: self.upload(bytemuck::cast_slice(&row_words))?,
            tables: self.upload(bytemuck::cast_slice(&table))?,
            q: self.upload(bytemuck::cast_slice(q))?,
            keys: self.upload(bytemuck::cast_slice(&paged(keys)))?,
            values: self.upload(bytemuck::cast_slice(&paged(values)))?,
            a: self.device.buffer("a", 4 * q.len() as u64)?,
        })
    }
}

impl Prompt {
    /// The work split that a model uses.
    pub fn cores(&self) -> Option<WorkSplit> {
        self.attention.cores(&self.device.capabilities, self.words.len())
    }

    /// The bytes of workgroup memory of a work split.
    pub fn bytes(&self, cores: &WorkSplit) -> usize {
        cores.bytes(self.attention.key_dim, self.attention.value_dim)
    }

    /// Compiles the kernel of a work split, or the one without matrix cores.
    pub fn by(&self, cores: Option<WorkSplit>) -> Result<Split<'_>, Error> {
        let Self { device, attention, .. } = self;
        let source = match cores {
            Some(cores) => attention.cores_source(&cores)?,
            None => attention.prompt_source()?,
        };
        let list = tiles(&self.words, attention.tile_rows(cores));
        let tiles = device.buffer("tiles", 8 * list.len() as u64)?;
        device.queue.write_buffer(&tiles, 0, bytemuck::cast_slice(&list));
        Ok(Split {
            prompt: self,
            kernel: device.kernel("attention", &source)?,
            groups: [attention.prompt_groups(cores), list.len() as u32, 1],
            tiles,
        })
    }
}

impl Split<'_> {
    /// Computes `[rows, heads, head_dim]` once.
    pub fn compute(&self) -> Result<Vec<f32>, Error> {
        let Prompt { device, a, .. } = self.prompt;
        // NaN, so that an element that is not written shows
        let mut result = vec![f32::NAN; a.size() as usize / 4];
        device.queue.write_buffer(a, 0, bytemuck::cast_slice(&result));
        self.seconds(1)?;
        let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
        let copy = device.buffer_for("copy", a.size(), usage)?;
        let mut encoder = device.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(a, 0, &copy, 0, a.size());
        device.queue.submit([encoder.finish()]);
        device.read(&copy, bytemuck::cast_slice_mut(&mut result))?;
        Ok(result)
    }

    /// Seconds of one dispatch: the mean of `times` in one submission.
    pub fn seconds(&self, times: u32) -> Result<f64, Error> {
        let Prompt { device, rows, tables, q, keys, values, a, .. } = self.prompt;
        let buffers = [rows, tables, &self.tiles, q, keys, values, a];
        let buffers: Vec<_> = buffers.iter().map(|b| b.as_entire_buffer_binding()).collect();
        let group = device.bind("measure", &self.kernel, &buffers)?;
        let mut encoder = device.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        for _ in 0..times {
            self.kernel.record(&mut pass, &group, self.groups);
        }
        drop(pass);
        let commands = encoder.finish();
        device.wait()?;
        let begin = Instant::now();
        device.queue.submit([commands]);
        device.wait()?;
        Ok(begin.elapsed().as_secs_f64() / f64::from(times))
    }
}
