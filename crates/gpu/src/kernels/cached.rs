//! Keys and values as the caches of a GPU have them, by their definition, for tests.

use half::f16;
use pelton_graph::KvElement;
use pelton_quant::{DType, IQ4_NL_LEVELS, Parts, decode, encode};

use super::rope_store::stored_bytes;
use crate::testing::q8_block;

/// A block of 32 elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) codes: [u8; 32],
    pub(crate) scale: f16,
    pub(crate) minimum: f16,
}

impl Block {
    /// The block of 32 elements by the definition of the type.
    pub(crate) fn of(kv: KvElement, x: &[f32]) -> Self {
        if kv == KvElement::Q8_0 {
            let (codes, scale) = q8_block(x);
            return Self { codes: codes.map(i8::cast_unsigned), scale, minimum: f16::ZERO };
        }
        if x.iter().any(|x| !x.is_finite()) {
            return Self { codes: [0; 32], scale: f16::NAN, minimum: f16::ZERO };
        }
        let Parts { d, m, codes } = Parts::of(kv.dtype(), x.try_into().unwrap()).unwrap();
        Self { codes, scale: f16::from_f32(d), minimum: f16::from_f32(m) }
    }

    fn values(&self, kv: KvElement) -> [f32; 32] {
        let block = kv.block().unwrap();
        let level = |code: u8| match block.bits {
            8 => f32::from(code.cast_signed()),
            _ if block.uneven => f32::from(IQ4_NL_LEVELS[usize::from(code)]),
            _ => f32::from(code) - f32::from(block.offset),
        };
        self.codes.map(|code| self.scale.to_f32() * level(code) + self.minimum.to_f32())
    }
}

/// The blocks of one position of a head.
pub(crate) fn blocks(kv: KvElement, bytes: &[u8], dim: usize) -> Vec<Block> {
    let block = kv.block().unwrap();
    let codes_len = if block.bits == 8 { dim } else { dim / 2 };
    let (codes, rest) = bytes.split_at(codes_len);
    let (fifth, factors) = rest.split_at(if block.bits == 5 { dim / 8 } else { 0 });
    let half = |at: usize| f16::from_le_bytes([factors[2 * at], factors[2 * at + 1]]);
    let one = |b: usize| Block {
        codes: std::array::from_fn(|i| match block.bits {
            8 => codes[b * 32 + i],
            _ => {
                let low = codes[b * 16 + i / 2] >> (i % 2 * 4) & 15;
                let upper = fifth.get(b * 4 + i / 8).map_or(0, |byte| byte >> (i % 8) & 1);
                low | upper << 4
            }
        }),
        scale: half(if block.has_min { 2 * b } else { b }),
        minimum: if block.has_min { half(2 * b + 1) } else { f16::ZERO },
    };
    (0..dim / 32).map(one).collect()
}

/// Elements `[positions, dim]` as a cache has them.
pub(crate) fn to_cache(kv: KvElement, values: &[f32], dim: usize) -> Vec<u8> {
    let Some(block) = kv.block() else {
        let mut bytes = Vec::new();
        // the encoder has no NaN but in floats
        encode(kv.dtype(), values, &mut bytes).unwrap();
        return bytes;
    };
    let position = |x: &[f32]| {
        let blocks: Vec<Block> = x.chunks(32).map(|x| Block::of(kv, x)).collect();
        let mut bytes = Vec::new();
        for Block { codes, .. } in &blocks {
            match block.bits {
                8 => bytes.extend(codes),
                _ => bytes.extend(codes.chunks(2).map(|two| two[0] & 15 | two[1] << 4)),
            }
        }
        for Block { codes, .. } in blocks.iter().filter(|_| block.bits == 5) {
            let bit = |(i, code): (usize, &u8)| (code >> 4) << i;
            bytes.extend(codes.chunks(8).map(|x| x.iter().enumerate().map(bit).sum::<u8>()));
        }
        for Block { scale, minimum, .. } in &blocks {
            bytes.extend(scale.to_le_bytes());
            bytes.extend(minimum.to_le_bytes().iter().filter(|_| block.has_min));
        }
        bytes.resize(stored_bytes(kv, dim), 0);
        bytes
    };
    values.chunks(dim).flat_map(position).collect()
}

/// The elements `[positions, dim]` of a cache.
pub(crate) fn from_cache(kv: KvElement, bytes: &[u8], dim: usize) -> Vec<f32> {
    if kv.block().is_some() {
        let positions = bytes.chunks(stored_bytes(kv, dim));
        let of = |bytes| blocks(kv, bytes, dim).into_iter().flat_map(|block| block.values(kv));
        return positions.flat_map(of).collect();
    }
    let size = if kv.dtype() == DType::F32 { 4 } else { 2 };
    let mut values = vec![0.0; bytes.len() / size];
    decode(kv.dtype(), bytes, &mut values).unwrap();
    values
}

/// Asserts that a stored block is the block of the elements `x`.
///
/// # Panics
/// If it is not. Codes of 4 and 5 bits may differ by one where an element is halfway between two,
/// because a GPU's reciprocal may be off by its last bits. The scale of uneven levels is a quotient
/// of sums, and may differ by a bit.
pub(crate) fn assert_block(kv: KvElement, got: Block, x: &[f32], what: &str) {
    let expected = Block::of(kv, x);
    let same = |a: f16, b: f16| a == b || (a.is_nan() && b.is_nan());
    let near = |a: f16, b: f16| same(a, b) || a.to_bits().abs_diff(b.to_bits()) == 1;
    let block = kv.block().unwrap();
    assert!(
        (same(got.scale, expected.scale) || block.uneven && near(got.scale, expected.scale))
            && same(got.minimum, expected.minimum),
        "{kv}, {what}: {got:?} for {expected:?}, {x:?}"
    );
    for (i, (&got, &code)) in got.codes.iter().zip(&expected.codes).enumerate() {
        let near = block.bits < 8 && {
            let spread = x.iter().fold(0f32, |most, x| most.max(x.abs())) * 1e-6;
            let moved = |by: f32| {
                let mut x: [f32; 32] = x.try_into().unwrap();
                // the extremes decide the scale, which stays
                x[i] += by;
                Block::of(kv, &x).codes[i]
            };
            moved(spread) == got || moved(-spread) == got
        };
        assert!(got == code || near, "{kv}, {what}, {i}: {got} for {code}, {x:?}");
    }
}
