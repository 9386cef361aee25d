//! The codings of tiles.

use super::super::tile::Coding;
use super::super::vectors::Codes;

/// Implements `Coding`.
macro_rules! coding {
    ($name:ident, $codes:ident, $zero:expr, halves: $halves:literal, min: $min:literal) => {
        pub(in super::super) struct $name;

        impl Coding for $name {
            const CODES: Codes = Codes::$codes;
            const ZERO: Option<u32> = $zero;
            const HALVES: bool = $halves;
            const MIN: bool = $min;
        }
    };
}

coding!(I8, I8, None, halves: false, min: false);
coding!(I8Halves, I8, None, halves: true, min: false);
coding!(U4Min, U4, None, halves: false, min: true);
coding!(U4MinHalves, U4, None, halves: true, min: true);
coding!(U4Minus1, U4, Some(0), halves: false, min: false);
coding!(U4Minus4Halves, U4, Some(2), halves: true, min: false);
coding!(U4Minus8, U4, Some(3), halves: false, min: false);
coding!(U5Min, U5, None, halves: false, min: true);
coding!(U5Minus16, U5, Some(4), halves: false, min: false);
coding!(U5Minus16Halves, U5, Some(4), halves: true, min: false);
coding!(U6Minus32Halves, U6, Some(5), halves: true, min: false);
