//! The codebooks of the IQ formats, which hold 8 or 4 values for an index.

mod tables;

/// A codebook: `LEN` values for each of `ENTRIES` indices.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Grid<const LEN: usize, const ENTRIES: usize>(pub [[i8; LEN]; ENTRIES]);

impl<const LEN: usize, const ENTRIES: usize> Grid<LEN, ENTRIES> {
    /// The values whose indices among `levels` are packed in an entry.
    const fn unpack<const LEVELS: usize>(packed: &[u16; ENTRIES], levels: [i8; LEVELS]) -> Self {
        let bits = if LEN == 8 { 2 } else { 3 };
        let mut values = [[0; LEN]; ENTRIES];
        let mut at = 0;
        while at < LEN * ENTRIES {
            let (entry, i) = (at / LEN, at % LEN);
            values[entry][i] = levels[(packed[entry] >> (bits * i)) as usize & ((1 << bits) - 1)];
            at += 1;
        }
        Self(values)
    }

    /// The values of all entries as bytes.
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self.0.as_flattened())
    }
}

/// The levels of IQ2; an index of two bits is below 3.
const IQ2: [i8; 3] = [8, 25, 43];

/// Magnitudes of 8 elements of IQ2_XXS.
pub static IQ2_XXS_GRID: Grid<8, 256> = Grid::unpack(&tables::IQ2_XXS, IQ2);
/// Magnitudes of 8 elements of IQ2_XS.
pub static IQ2_XS_GRID: Grid<8, 512> = Grid::unpack(&tables::IQ2_XS, IQ2);
/// Magnitudes of 8 elements of IQ2_S.
pub static IQ2_S_GRID: Grid<8, 1024> = Grid::unpack(&tables::IQ2_S, IQ2);
/// Magnitudes of 4 elements of IQ3_XXS.
pub static IQ3_XXS_GRID: Grid<4, 256> =
    Grid::unpack(&tables::IQ3_XXS, [4, 12, 20, 28, 36, 44, 52, 62]);
/// Magnitudes of 4 elements of IQ3_S.
pub static IQ3_S_GRID: Grid<4, 512> = Grid::unpack(&tables::IQ3_S, [1, 3, 5, 7, 9, 11, 13, 15]);
/// Codes of 8 elements of IQ1_S and IQ1_M: 16 + 8 (value + ⅛) for the values −1, 0 and 1. Two less
/// is 16 + 8 (value − ⅛).
pub static IQ1_GRID: Grid<8, 2048> = Grid::unpack(&tables::IQ1, [9, 17, 25]);

/// The eight signs that seven bits stand for: the number of negative signs is even.
///
/// ```
/// # use pelton_quant::even_signs;
/// assert_eq!(even_signs(0b000_0111), 0b1000_0111);
/// assert_eq!(even_signs(0b100_0001), 0b0100_0001);
/// ```
#[inline]
pub const fn even_signs(seven: u8) -> u8 {
    let seven = seven & 127;
    seven | ((seven.count_ones() as u8 & 1) << 7)
}

/// Negates the values whose bits are set.
#[inline]
pub(crate) fn signed<const LEN: usize>(values: [i8; LEN], signs: u8) -> [i8; LEN] {
    std::array::from_fn(|i| if signs >> i & 1 == 0 { values[i] } else { -values[i] })
}
