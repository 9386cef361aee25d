//! Random numbers and blocks, the same in every run.

use half::f16;
use pelton_quant::DType;

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A whole number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// About normal, with this mean and deviation: the sum of twelve uniform numbers.
    pub fn normal(&mut self, mean: f32, deviation: f32) -> f32 {
        let sum: f32 = (0..12).map(|_| (self.bits() >> 40) as f32 / (1u64 << 24) as f32).sum();
        mean + deviation * (sum - 6.0)
    }

    /// `len` numbers as [`normal`](Self::normal) makes them.
    pub fn normals(&mut self, len: usize, mean: f32, deviation: f32) -> Vec<f32> {
        (0..len).map(|_| self.normal(mean, deviation)).collect()
    }

    /// `len` random numbers stored as `dtype`. Types that cannot be encoded get random codes, and
    /// scales with which the deviation is about the one that is asked for.
    pub fn blocks(&mut self, dtype: DType, len: usize, mean: f32, deviation: f32) -> Vec<u8> {
        // the places of f16 scales in a block, and about how large a number is at scale 1
        let (scales, size): (&[usize], f32) = match dtype {
            DType::Q2_K => (&[80, 82], 15.0),
            DType::Q3_K => (&[108], 40.0),
            DType::Q4_K => (&[0, 2], 300.0),
            DType::Q5_K => (&[0, 2], 600.0),
            DType::Q6_K => (&[208], 1300.0),
            DType::IQ4_NL => (&[0], 70.0),
            DType::IQ3_S | DType::IQ3_XXS => (&[0], 140.0),
            DType::IQ2_S | DType::IQ2_XS | DType::IQ2_XXS => (&[0], 55.0),
            DType::IQ1_S => (&[0], 7.0),
            DType::IQ1_M => (&[], 7.0),
            _ => {
                let mut bytes = Vec::new();
                let values = self.normals(len, mean, deviation);
                pelton_quant::encode(dtype, &values, &mut bytes).unwrap();
                return bytes;
            }
        };
        let mut bytes = vec![0; dtype.bytes_of(len).unwrap()];
        bytes.fill_with(|| self.bits() as u8);
        for block in bytes.chunks_mut(dtype.block_bytes()) {
            let mut scale = || f16::from_f32(self.normal(1.0, 0.1) * deviation / size);
            for &at in scales {
                block[at..at + 2].copy_from_slice(&scale().to_le_bytes());
            }
            if dtype == DType::IQ1_M {
                // four bits of the scale on top of each of the last four words
                let bits = scale().to_bits();
                for (i, word) in block[48..].as_chunks_mut::<2>().0.iter_mut().enumerate() {
                    word[1] = word[1] & 15 | ((bits >> (4 * i) & 15) << 4) as u8;
                }
            }
        }
        bytes
    }
}
