//! How blocks of 32 lay out four- and five-bit codes.
//!
//! Byte `j` of 16 holds the low four bits of code `j` in its low half and those of code
//! `j + 16` in its high half; bit `i` of the word `qh` is the fifth bit of code `i`.

/// The 32 four-bit codes of 16 bytes, in element order.
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

/// The 32 five-bit codes of 16 bytes and the fifth bits, in element order.
#[inline]
pub(crate) fn unpack_5(qs: &[u8; 16], qh: [u8; 4]) -> [u8; 32] {
    let high = u32::from_le_bytes(qh);
    let mut codes = unpack(qs);
    for (i, code) in codes.iter_mut().enumerate() {
        *code |= ((high >> i & 1) << 4) as u8;
    }
    codes
}

/// The 16 bytes of the low four bits of 32 codes.
pub(crate) fn pack(codes: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|j| codes[j] & 15 | codes[j + 16] << 4)
}

/// The fifth bits of 32 codes.
pub(crate) fn pack_fifth(codes: &[u8; 32]) -> [u8; 4] {
    let word = codes.iter().enumerate().fold(0, |word, (i, &c)| word | u32::from(c >> 4 & 1) << i);
    word.to_le_bytes()
}
