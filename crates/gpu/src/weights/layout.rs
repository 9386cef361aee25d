//! The layout of weights on the GPU: codes and scales in separate planes, so that adjacent lanes of
//! a subgroup read adjacent vectors, of 16 bytes if the format has as many.
//!
//! A *unit* is the vector that one lane decodes at a time: 16 bytes of a row of floats,
//! or 32 weights of a row in blocks. Unit `u` of row `n` has the index
//! `i = n · units + u` in every plane:
//!
//! | plane | F32, F16, BF16 | 4 bits (Q4, Q5, Q6_K, IQ4, MXFP4) | 8 bits (Q8_0) | 2 bits (Q2_K, Q3_K) |
//! |---|---|---|---|---|
//! | `low` | 16 bytes, rows padded with zeros | 16 bytes: byte `j` has element `j` low, `j + 16` high | 16 bytes of each half; a row's first halves, then its second halves | 8 bytes: bits `2w` and `2w + 1` of byte `b` of half `h` are element `16h + 4w + b` |
//!
//! | plane | one bit more (Q5, Q3_K) | two bits more (Q6_K) |
//! |---|---|---|
//! | `high` | 4 bytes: bit `w` of byte `b` is element `4w + b` | 8 bytes, as the 2-bit `low` |
//!
//! | plane | Q4_0, Q5_0, Q8_0, IQ4_NL | Q4_1, Q5_1 | super-blocks (`_K`) |
//! |---|---|---|---|
//! | `d` | f16 scale | f16 scale and minimum | f16 `d` and `dmin` (or 0) of super-block `i / 8` |
//! | `sub` | | | 2 bytes: scale and minimum (Q4_K, Q5_K), the halves' two scales (Q3_K, Q6_K), four bits each of scale and minimum of either half (Q2_K) |
//!
//! | plane | MXFP4 | NVFP4 | IQ4_XS | TQ1_0, TQ2_0 | Q2_0, Q1_0 |
//! |---|---|---|---|---|---|
//! | `d` | 1 byte: exponent of the scale | 2 bytes: the halves' scales (E4M3) | f16 `d` of super-block `i / 8` | likewise | f16 `d` of block `i / 2`, `i / 4` |
//! | `sub` | | | 1 byte: signed scale | | |
//!
//! Formats with a codebook have a `d` as IQ4_XS, and the codebook as another plane:
//!
//! | plane | IQ3_S | IQ3_XXS | IQ2_S | IQ2_XS | IQ2_XXS | IQ1_S | IQ1_M |
//! |---|---|---|---|---|---|---|---|
//! | `low` | 8 indices | 8 indices | 4 indices, 4 bytes of signs | 4 times index and signs | 4 indices, signs and scale | 4 indices | 4 indices |
//! | `sub` | 9th bits, scale | | upper bits, scales | scales | | upper bits, scale, shift | upper bits, shifts |
//! | `high` | signs | signs and scale | | | | | scales |

use pelton_quant::{
    BlockIq1M, BlockIq1S, BlockIq2S, BlockIq2Xs, BlockIq2Xxs, BlockIq3S, BlockIq3Xxs, BlockIq4Nl,
    BlockIq4Xs, BlockMxfp4, BlockNvfp4, BlockQ1_0, BlockQ2_0, BlockQ2K, BlockQ3K, BlockQ4_0,
    BlockQ4_1, BlockQ4K, BlockQ5_0, BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, BlockTq1_0,
    BlockTq2_0, DType, IQ1_GRID, IQ2_S_GRID, IQ2_XS_GRID, IQ2_XXS_GRID, IQ3_S_GRID, IQ3_XXS_GRID,
    scale_min_k4,
};

/// Planes begin at multiples of this, the greatest offset alignment of any GPU.
const ALIGNMENT: u64 = 256;

/// The planes of a format on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The format.
    pub(crate) dtype: DType,
    /// Weights in a unit.
    pub(crate) unit: usize,
    /// Bytes of a unit in `low`, `high` and `sub`; 0 if there is no such plane.
    pub(crate) low: usize,
    pub(crate) high: usize,
    pub(crate) sub: usize,
    /// Bytes of a scale in `d`, and the number of its units; 0 bytes if there is no such plane.
    pub(crate) d: usize,
    pub(crate) d_units: usize,
    /// Whether kernels bind all planes as one buffer.
    pub(crate) joined: bool,
}

/// The codes that indices name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codebook {
    /// Bytes of an entry: its codes.
    pub(crate) entry: usize,
    /// All entries.
    pub(crate) bytes: &'static [u8],
}

impl Layout {
    pub(crate) const fn of(dtype: DType) -> Self {
        let (unit, low, high, sub, d, d_units) = match dtype {
            DType::F32 => (4, 16, 0, 0, 0, 1),
            DType::F16 | DType::BF16 => (8, 16, 0, 0, 0, 1),
            DType::Q4_0 | DType::IQ4_NL => (32, 16, 0, 0, 2, 1),
            DType::Q4_1 => (32, 16, 0, 0, 4, 1),
            DType::Q5_0 => (32, 16, 4, 0, 2, 1),
            DType::Q5_1 => (32, 16, 4, 0, 4, 1),
            DType::Q8_0 => (32, 32, 0, 0, 2, 1),
            DType::Q2_K => (32, 8, 0, 2, 4, 8),
            DType::Q3_K => (32, 8, 4, 2, 4, 8),
            DType::Q4_K => (32, 16, 0, 2, 4, 8),
            DType::Q5_K => (32, 16, 4, 2, 4, 8),
            DType::Q6_K => (32, 16, 8, 2, 4, 8),
            DType::IQ4_XS => (32, 16, 0, 1, 2, 8),
            DType::MXFP4 => (32, 16, 0, 0, 1, 1),
            DType::IQ3_S => (32, 8, 4, 2, 2, 8),
            DType::IQ3_XXS => (32, 8, 4, 0, 2, 8),
            DType::IQ2_S => (32, 8, 0, 2, 2, 8),
            DType::IQ2_XS => (32, 8, 0, 1, 2, 8),
            DType::IQ2_XXS => (32, 8, 0, 0, 2, 8),
            DType::IQ1_S => (32, 4, 0, 2, 2, 8),
            DType::IQ1_M => (32, 4, 1, 2, 2, 8),
            DType::TQ1_0 | DType::TQ2_0 => (32, 8, 0, 0, 2, 8),
            DType::NVFP4 => (32, 16, 0, 0, 2, 1),
            DType::Q2_0 => (32, 8, 0, 0, 2, 2),
            DType::Q1_0 => (32, 8, 0, 0, 2, 4),
        };
        Self { dtype, unit, low, high, sub, d, d_units, joined: false }
    }

    /// The same planes; with `joins` those of a format with several are one buffer, which begins
    /// with the places of `low`, `d`, `sub`, `high` and the codebook in words.
    pub(crate) const fn joined(self, joins: bool) -> Self {
        Self { joined: joins && self.blocks(), ..self }
    }

    /// Whether weights are integer codes with scales.
    pub(crate) const fn blocks(&self) -> bool {
        self.d > 0
    }

    /// Units of a row of `row_len` weights.
    pub(crate) const fn units(&self, row_len: usize) -> usize {
        row_len.div_ceil(self.unit)
    }

    /// Bytes of the planes `low`, `d`, `sub` and `high` of `rows` rows, in the order in which
    /// kernels bind them, without planes that the format does not have.
    pub(crate) fn planes(&self, rows: usize, row_len: usize) -> Vec<u64> {
        let units = (rows * self.units(row_len)) as u64;
        [(self.low, 1), (self.d, self.d_units), (self.sub, 1), (self.high, 1)]
            .into_iter()
            .filter(|&(bytes, _)| bytes > 0)
            .map(|(bytes, of)| units.div_ceil(of as u64) * bytes as u64)
            .collect()
    }

    /// The offset and the bytes of each plane of some rows in one buffer, and the end of them.
    pub(crate) fn placed(&self, rows: usize, row_len: usize) -> (Vec<(u64, u64)>, u64) {
        let mut end = if self.joined { ALIGNMENT } else { 0 };
        let codebook = self.codebook().map(|codebook| codebook.bytes.len() as u64);
        let planes = self.planes(rows, row_len).into_iter().chain(codebook);
        let placed = planes.map(|bytes| {
            let begin = end;
            end = (begin + bytes).next_multiple_of(ALIGNMENT);
            (begin, bytes)
        });
        (placed.collect(), end)
    }

    /// The codebook of the format, which is the last plane of each shard of a matrix.
    pub(crate) fn codebook(&self) -> Option<Codebook> {
        let (entry, bytes) = match self.dtype {
            DType::IQ3_S => (4, IQ3_S_GRID.bytes()),
            DType::IQ3_XXS => (4, IQ3_XXS_GRID.bytes()),
            DType::IQ2_S => (8, IQ2_S_GRID.bytes()),
            DType::IQ2_XS => (8, IQ2_XS_GRID.bytes()),
            DType::IQ2_XXS => (8, IQ2_XXS_GRID.bytes()),
            DType::IQ1_S | DType::IQ1_M => (8, IQ1_GRID.bytes()),
            _ => return None,
        };
        Some(Codebook { entry, bytes })
    }

    /// The names of the buffers that kernels bind, in the order of the [planes](Self::placed).
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let all = [
            ("low", self.low > 0),
            ("d", self.d > 0),
            ("sub", self.sub > 0),
            ("high", self.high > 0),
            ("grid", self.codebook().is_some()),
        ];
        match self.joined {
            true => vec!["planes"],
            false => all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect(),
        }
    }

    /// The words at which a buffer of [joined](Self::joined) planes begins, where these are placed.
    pub(crate) fn places(&self, placed: &[(u64, u64)]) -> [u32; 5] {
        let mut next = placed.iter();
        let has =
            [self.low > 0, self.d > 0, self.sub > 0, self.high > 0, self.codebook().is_some()];
        has.map(|has| match has {
            true => next.next().map_or(0, |(offset, _)| (offset / 4) as u32),
            false => 0,
        })
    }

    /// The planes of a whole matrix of `rows` rows, and the codebook.
    pub(crate) fn packed(&self, bytes: &[u8], rows: usize, row_len: usize) -> Vec<Vec<u8>> {
        let sizes = self.planes(rows, row_len);
        let mut planes: Vec<Vec<u8>> = sizes.iter().map(|&n| vec![0; n as usize]).collect();
        let mut views: Vec<&mut [u8]> = planes.iter_mut().map(Vec::as_mut_slice).collect();
        self.pack(bytes, row_len, &mut views);
        planes.extend(self.codebook().map(|codebook| codebook.bytes.to_vec()));
        planes
    }

    /// Packs whole rows into planes of the lengths of [`planes`](Self::planes).
    pub(crate) fn pack(&self, bytes: &[u8], row_len: usize, planes: &mut [&mut [u8]]) {
        match self.dtype {
            DType::F32 | DType::F16 | DType::BF16 => {
                let row_bytes = bytes.len() / (bytes.len() / self.dtype.block_bytes() / row_len);
                let padded = self.units(row_len) * self.low;
                for (from, to) in bytes.chunks(row_bytes).zip(planes[0].chunks_mut(padded)) {
                    let (data, rest) = to.split_at_mut(row_bytes);
                    data.copy_from_slice(from);
                    rest.fill(0);
                }
            }
            DType::Q4_0 => each::<BlockQ4_0>(bytes, |i, block| {
                planes[0][i * 16..][..16].copy_from_slice(&block.qs);
                planes[1][i * 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
            }),
            DType::IQ4_NL => each::<BlockIq4Nl>(bytes, |i, block| {
                planes[0][i * 16..][..16].copy_from_slice(&block.qs);
                planes[1][i * 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
            }),
            DType::IQ4_XS => each::<BlockIq4Xs>(bytes, |i, block| {
                planes[0][i * 128..][..128].copy_from_slice(&block.qs);
                planes[1][i * 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
                planes[2][i * 8..][..8].copy_from_slice(bytemuck::bytes_of(&block.scales()));
            }),
            DType::MXFP4 => each::<BlockMxfp4>(bytes, |i, block| {
                planes[0][i * 16..][..16].copy_from_slice(&block.qs);
                planes[1][i] = block.e;
            }),
            DType::IQ3_S => each::<BlockIq3S>(bytes, |i, block| {
                planes[0][i * 64..][..64].copy_from_slice(&block.qs);
                planes[1][i * 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
                for (u, bytes) in (i * 8..).zip(block.qh.into_iter().zip(block.scales())) {
                    planes[2][u * 2..][..2].copy_from_slice(&[bytes.0, bytes.1]);
                }
                planes[3][i * 32..][..32].copy_from_slice(&block.signs);
            }),
            DType::IQ3_XXS => each::<BlockIq3Xxs>(bytes, |i, block| {
                planes[0][i * 64..][..64].copy_from_slice(block.qs.as_flattened());
                planes[1][i * 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
                planes[2][i * 32..][..32].copy_from_slice(block.signs.as_flattened());
            }),
            DType::IQ2_S => each::<BlockIq2S>(bytes, |i, block| {
                planes[1][i * 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
                for (part, u) in (i * 8..i * 8 + 8).enumerate() {
                    planes[0][u * 8..][..4].copy_from_slice(&block.qs[4 * part..][..4]);
                    planes[0][u * 8 + 4..][..4].copy_from_slice(&block.signs[4 * part..][..4]);
                    let bytes = [block.qh[part], block.scales[part]];
                    planes[2][u * 2..][..2].copy_from_slice(&bytes);
                }
            }),
            DType::IQ2_XS => each::<BlockIq2Xs>(bytes, |i, block| {
                planes[0][i * 64..][..64].copy_from_slice(block.qs.as_flattened());
                planes[1][i * 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
                planes[2][i * 8..][..8].copy_from_slice(&block.scales);
            }),
            DType::IQ2_XXS => each::<BlockIq2Xxs>(bytes, |i, block| {
                planes[0][i * 64..][..64].copy_from_slice(block.qs.as_flattened());
                planes[1][i * 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
            }),
            DType::IQ1_S => each::<BlockIq1S>(bytes, |i, block| {
                planes[0][i * 32..][..32].copy_from_slice(&block.qs);
                planes[1][i * 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
                planes[2][i * 16..][..16].copy_from_slice(block.qh.as_flattened());
            }),
            DType::IQ1_M => each::<BlockIq1M>(bytes, |i, block| {
                planes[0][i * 32..][..32].copy_from_slice(&block.qs);
                planes[1][i * 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.d()));
                planes[2][i * 16..][..16].copy_from_slice(&block.qh);
                for (u, [low, high]) in (i * 8..).zip(block.scales().as_chunks().0) {
                    planes[3][u] = low | high << 4;
                }
            }),
            DType::TQ1_0 => each::<BlockTq1_0>(bytes, |i, block| {
                ternary(planes, i, &block.codes(), bytemuck::bytes_of(&block.d));
            }),
            DType::TQ2_0 => each::<BlockTq2_0>(bytes, |i, block| {
                ternary(planes, i, &block.codes(), bytemuck::bytes_of(&block.d));
            }),
            DType::Q2_0 => each::<BlockQ2_0>(bytes, |i, block| {
                ternary(planes, i, &block.codes(), bytemuck::bytes_of(&block.d));
            }),
            DType::Q1_0 => each::<BlockQ1_0>(bytes, |i, block| {
                ternary(planes, i, &block.codes(), bytemuck::bytes_of(&block.d));
            }),
            DType::NVFP4 => each::<BlockNvfp4>(bytes, |i, block| {
                // a NaN counts as 0, and a sign has no meaning
                let scales = block.d.map(|d| if d == 0x7f { 0 } else { d & 0x7f });
                planes[1][i * 4..][..4].copy_from_slice(&scales);
                for (u, codes) in (i * 2..).zip(block.codes().as_chunks::<32>().0) {
                    planes[0][u * 16..][..16].copy_from_slice(&nibbles(codes));
                }
            }),
            DType::Q4_1 => each::<BlockQ4_1>(bytes, |i, block| {
                planes[0][i * 16..][..16].copy_from_slice(&block.qs);
                planes[1][i * 4..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
                planes[1][i * 4 + 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.m));
            }),
            DType::Q5_0 => each::<BlockQ5_0>(bytes, |i, block| {
                let codes = block.codes().map(|q| (q + 16) as u8);
                planes[0][i * 16..][..16].copy_from_slice(&nibbles(&codes));
                planes[1][i * 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
                planes[2][i * 4..][..4].copy_from_slice(&bits(&codes, 4));
            }),
            DType::Q5_1 => each::<BlockQ5_1>(bytes, |i, block| {
                let codes = block.codes();
                planes[0][i * 16..][..16].copy_from_slice(&nibbles(&codes));
                planes[1][i * 4..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
                planes[1][i * 4 + 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.m));
                planes[2][i * 4..][..4].copy_from_slice(&bits(&codes, 4));
            }),
            DType::Q8_0 => {
                let units = self.units(row_len);
                each::<BlockQ8_0>(bytes, |i, block| {
                    let first = i / units * 2 * units + i % units;
                    let (a, b) = bytemuck::cast_slice::<_, u8>(&block.qs).split_at(16);
                    planes[0][first * 16..][..16].copy_from_slice(a);
                    planes[0][(first + units) * 16..][..16].copy_from_slice(b);
                    planes[1][i * 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
                });
            }
            DType::Q2_K => each::<BlockQ2K>(bytes, |i, block| {
                planes[1][i * 4..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
                planes[1][i * 4 + 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.dmin));
                planes[2][i * 16..][..16].copy_from_slice(&block.scales);
                for (u, codes) in (i * 8..).zip(block.codes().as_chunks::<32>().0) {
                    planes[0][u * 8..][..8].copy_from_slice(&pairs(codes, 0));
                }
            }),
            DType::Q3_K => each::<BlockQ3K>(bytes, |i, block| {
                planes[1][i * 4..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
                planes[1][i * 4 + 2..][..2].fill(0);
                planes[2][i * 16..][..16].copy_from_slice(bytemuck::bytes_of(&block.scales()));
                let codes = block.codes().map(|q| (q + 4) as u8);
                for (u, codes) in (i * 8..).zip(codes.as_chunks::<32>().0) {
                    planes[0][u * 8..][..8].copy_from_slice(&pairs(codes, 0));
                    planes[3][u * 4..][..4].copy_from_slice(&bits(codes, 2));
                }
            }),
            DType::Q4_K => each::<BlockQ4K>(bytes, |i, block| {
                planes[1][i * 4..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
                planes[1][i * 4 + 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.dmin));
                let codes = block.codes();
                for (part, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
                    let (u, (scale, min)) = (i * 8 + part, scale_min_k4(&block.scales, part));
                    planes[0][u * 16..][..16].copy_from_slice(&nibbles(codes));
                    planes[2][u * 2..][..2].copy_from_slice(&[scale, min]);
                }
            }),
            DType::Q5_K => each::<BlockQ5K>(bytes, |i, block| {
                planes[1][i * 4..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
                planes[1][i * 4 + 2..][..2].copy_from_slice(bytemuck::bytes_of(&block.dmin));
                let codes = block.codes();
                for (part, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
                    let (u, (scale, min)) = (i * 8 + part, scale_min_k4(&block.scales, part));
                    planes[0][u * 16..][..16].copy_from_slice(&nibbles(codes));
                    planes[2][u * 2..][..2].copy_from_slice(&[scale, min]);
                    planes[3][u * 4..][..4].copy_from_slice(&bits(codes, 4));
                }
            }),
            DType::Q6_K => each::<BlockQ6K>(bytes, |i, block| {
                planes[1][i * 4..][..2].copy_from_slice(bytemuck::bytes_of(&block.d));
                planes[1][i * 4 + 2..][..2].fill(0);
                planes[2][i * 16..][..16].copy_from_slice(bytemuck::bytes_of(&block.scales));
                let codes = block.codes().map(|q| (q + 32) as u8);
                for (u, codes) in (i * 8..).zip(codes.as_chunks::<32>().0) {
                    planes[0][u * 16..][..16].copy_from_slice(&nibbles(codes));
                    planes[3][u * 8..][..8].copy_from_slice(&pairs(codes, 4));
                }
            }),
        }
    }
}

/// Calls `f` with the index of each block and the block.
fn each<B: bytemuck::AnyBitPattern>(bytes: &[u8], mut f: impl FnMut(usize, &B)) {
    if let Ok(blocks) = bytemuck::try_cast_slice(bytes) {
        for (i, block) in blocks.iter().enumerate() {
            f(i, block);
        }
    }
}

/// Packs the codes -1 to 2 and the scale of super-block `i`.
fn ternary<const N: usize>(planes: &mut [&mut [u8]], i: usize, codes: &[i8; N], d: &[u8]) {
    let codes = codes.map(|q| (q + 1) as u8);
    planes[1][i * 2..][..2].copy_from_slice(d);
    for (u, codes) in (i * (N / 32)..).zip(codes.as_chunks::<32>().0) {
        planes[0][u * 8..][..8].copy_from_slice(&pairs(codes, 0));
    }
}

/// The low four bits: element `j` in the low half of byte `j`, `j + 16` in the high half.
fn nibbles(codes: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|j| codes[j] & 15 | codes[j + 16] << 4)
}

/// Bit `bit` of the codes: that of element `4w + b` is bit `w` of byte `b`.
fn bits(codes: &[u8; 32], bit: u32) -> [u8; 4] {
    std::array::from_fn(|b| (0..8).fold(0, |byte, w| byte | (codes[4 * w + b] >> bit & 1) << w))
}

/// Bits `bit` and `bit + 1` of the codes: those of element `16h + 4w + b` are bits `2w` and
/// `2w + 1` of byte `4h + b`.
fn pairs(codes: &[u8; 32], bit: u32) -> [u8; 8] {
    std::array::from_fn(|at| {
        let (h, b) = (at / 4, at % 4);
        (0..4).fold(0, |byte, w| byte | (codes[16 * h + 4 * w + b] >> bit & 3) << (2 * w))
    })
}
