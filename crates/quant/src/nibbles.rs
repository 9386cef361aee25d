//! Packing of four- and five-bit codes in blocks of 32.
//!
//! Byte `j` of 16 holds the low four bits of code `j` in its low half and those of code `j + 16` in
//! its high half. Bit `i` of the word `qh` is the fifth bit of code `i`.

/// Unpacks 32 four-bit codes from 16 bytes, in element order.
#[inline]
pub(crate) fn unpack(qs: &[u8; 16]) -> [u8; 32] {
    let mut codes = [0; 32];
    let (low, high) = codes.split_at_mut(16);
    for ((low, high), q) in low.iter_mut().zip(high).zip(qs) {
        *low = q & 15;
        *high = q >> 4;
    }
    codes
}

/// Unpacks 32 five-bit codes from 16 bytes of low bits and the word of fifth bits, in element
/// order.
#[inline]
pub(crate) fn unpack_5(qs: &[u8; 16], qh: [u8; 4]) -> [u8; 32] {
    let high = u32::from_le_bytes(qh);
    let mut codes = unpack(qs);
    for (i, code) in codes.iter_mut().enumerate() {
        *code |= ((high >> i & 1) << 4) as u8;
    }
    codes
}

/// Packs the low four bits of 32 codes into 16 bytes.
#[inline(always)]
pub(crate) fn pack(codes: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|j| codes[j] & 15 | codes[j + 16] << 4)
}

/// Packs the fifth bits of 32 codes into a little-endian word.
#[inline(always)]
pub(crate) fn pack_fifth(codes: &[u8; 32]) -> [u8; 4] {
    let word = codes.iter().enumerate().fold(0, |word, (i, &c)| word | u32::from(c >> 4 & 1) << i);
    word.to_le_bytes()
}
