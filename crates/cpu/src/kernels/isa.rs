//! Which vector instructions the processor has.

use std::fmt;

/// A set of instructions that the kernels are compiled for.
///
/// All of them give the same results bit for bit, so the choice changes nothing but time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// Whatever the target is sure to have: the specification of the others.
    Portable,
    /// AVX2 with FMA and F16C: x86 since 2013 (Haswell) and 2017 (Zen).
    Avx2,
    /// AVX-512 F, BW, DQ and VL: since Skylake-SP and Zen 4.
    Avx512,
    /// AVX-512 with VNNI, which multiplies and adds bytes in one instruction: since Cascade Lake
    /// and Zen 4.
    Avx512Vnni,
    /// NEON: every 64-bit Arm processor.
    Neon,
    /// NEON with `dotprod`, which multiplies and adds bytes in one instruction: since Cortex-A75,
    /// Neoverse N1 and Apple's A13 and M1.
    NeonDotProd,
    /// NEON with `i8mm`, which multiplies 2 x 8 with 8 x 2 bytes: since Cortex-A710, Neoverse V1
    /// and N2, and Apple's A15 and M2.
    NeonI8mm,
}

impl Isa {
    /// Every set, from the plainest to the most capable.
    pub const ALL: [Self; 7] = [
        Self::Portable,
        Self::Avx2,
        Self::Avx512,
        Self::Avx512Vnni,
        Self::Neon,
        Self::NeonDotProd,
        Self::NeonI8mm,
    ];

    /// The most capable set that this processor has.
    pub fn detect() -> Self {
        Self::available().last().unwrap_or(Self::Portable)
    }

    /// The sets that this processor has, from the plainest to the most capable.
    pub fn available() -> impl DoubleEndedIterator<Item = Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_available())
    }

    /// Whether this processor has all of the set.
    #[cfg(target_arch = "x86_64")]
    pub fn is_available(self) -> bool {
        let avx2 = || {
            is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
        };
        let avx512 = || {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
        };
        match self {
            Self::Portable => true,
            Self::Avx2 => avx2(),
            Self::Avx512 => avx2() && avx512(),
            Self::Avx512Vnni => avx2() && avx512() && is_x86_feature_detected!("avx512vnni"),
            Self::Neon | Self::NeonDotProd | Self::NeonI8mm => false,
        }
    }

    /// Whether this processor has all of the set.
    #[cfg(target_arch = "aarch64")]
    pub fn is_available(self) -> bool {
        use std::arch::is_aarch64_feature_detected;
        // The order of bytes in a register is taken for granted.
        let neon = || cfg!(target_endian = "little") && is_aarch64_feature_detected!("neon");
        match self {
            Self::Portable => true,
            Self::Avx2 | Self::Avx512 | Self::Avx512Vnni => false,
            Self::Neon => neon(),
            Self::NeonDotProd => neon() && is_aarch64_feature_detected!("dotprod"),
            Self::NeonI8mm => neon() && is_aarch64_feature_detected!("i8mm"),
        }
    }

    /// Whether this processor has all of the set.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub fn is_available(self) -> bool {
        self == Self::Portable
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Portable => "portable",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
            Self::Avx512Vnni => "AVX-512 VNNI",
            Self::Neon => "NEON",
            Self::NeonDotProd => "NEON dotprod",
            Self::NeonI8mm => "NEON i8mm",
        })
    }
}
