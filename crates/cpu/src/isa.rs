//! Vector instruction sets, and the proof that this CPU has one.

use std::fmt;
use std::sync::OnceLock;

/// An instruction set that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstructionSet {
    /// The baseline of the compilation target: the specification of the others.
    Portable,
    /// AVX2 with FMA and F16C: x86 since 2013 (Haswell) and 2017 (Zen).
    Avx2,
    /// AVX2 with AVX-VNNI, which multiplies and adds bytes in one instruction: Intel's CPUs since
    /// 2021 (Alder Lake) and Zen 5.
    AvxVnni,
    /// AVX-512 F, BW, DQ and VL: since Skylake-SP and Zen 4.
    Avx512,
    /// AVX-512 with VNNI, which multiplies and adds bytes in one instruction: since Cascade Lake
    /// and Zen 4.
    Avx512Vnni,
    /// NEON: every 64-bit Arm CPU.
    Neon,
    /// NEON with `dotprod`, which multiplies and adds bytes in one instruction: since Cortex-A75,
    /// Neoverse N1 and Apple's A13 and M1.
    NeonDotProd,
    /// NEON with `i8mm`, which multiplies 2 x 8 with 8 x 2 bytes: since Cortex-A710, Neoverse V1
    /// and N2, and Apple's A15 and M2.
    NeonI8mm,
}

impl InstructionSet {
    /// Every set, from the least to the most capable of each architecture.
    const ALL: [Self; 8] = [
        Self::Portable,
        Self::Avx2,
        Self::AvxVnni,
        Self::Avx512,
        Self::Avx512Vnni,
        Self::Neon,
        Self::NeonDotProd,
        Self::NeonI8mm,
    ];

    /// The name in `PELTON_ISA`.
    const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::AvxVnni => "avx-vnni",
            Self::Avx512 => "avx512",
            Self::Avx512Vnni => "avx512-vnni",
            Self::Neon => "neon",
            Self::NeonDotProd => "neon-dotprod",
            Self::NeonI8mm => "neon-i8mm",
        }
    }

    /// Whether this CPU has all instructions of the set.
    #[cfg(target_arch = "x86_64")]
    fn is_detected(self) -> bool {
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
            Self::AvxVnni => avx2() && is_x86_feature_detected!("avxvnni"),
            Self::Avx512 => avx2() && avx512(),
            Self::Avx512Vnni => avx2() && avx512() && is_x86_feature_detected!("avx512vnni"),
            Self::Neon | Self::NeonDotProd | Self::NeonI8mm => false,
        }
    }

    /// Whether this CPU has all instructions of the set.
    #[cfg(target_arch = "aarch64")]
    fn is_detected(self) -> bool {
        use std::arch::is_aarch64_feature_detected;
        // the kernels assume the little-endian order of bytes in a register
        let neon = || cfg!(target_endian = "little") && is_aarch64_feature_detected!("neon");
        match self {
            Self::Portable => true,
            Self::Avx2 | Self::AvxVnni | Self::Avx512 | Self::Avx512Vnni => false,
            Self::Neon => neon(),
            Self::NeonDotProd => neon() && is_aarch64_feature_detected!("dotprod"),
            Self::NeonI8mm => neon() && is_aarch64_feature_detected!("i8mm"),
        }
    }

    /// Whether this CPU has all instructions of the set.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn is_detected(self) -> bool {
        self == Self::Portable
    }
}

/// The proof that this CPU has an [`InstructionSet`]: a value exists only after detection, so a
/// kernel that takes one may run the set's instructions.
///
/// All sets give the same results bit for bit, so the choice changes the time only.
///
/// ```
/// use pelton_cpu::isa::{InstructionSet, Isa};
///
/// assert!(Isa::available().any(|isa| isa.set() == InstructionSet::Portable));
/// ```
///
/// No other code can make one:
///
/// ```compile_fail,E0423
/// use pelton_cpu::isa::{InstructionSet, Isa};
///
/// let unproven = Isa(InstructionSet::NeonI8mm);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Isa(InstructionSet);

impl Isa {
    /// The baseline, which every CPU has.
    pub const PORTABLE: Self = Self(InstructionSet::Portable);

    /// The most capable set of this CPU.
    pub fn detect() -> Self {
        Self::available().last().unwrap_or(Self::PORTABLE)
    }

    /// The set that the environment variable `PELTON_ISA` names, or the most capable set of this
    /// CPU. The variable is read once.
    ///
    /// # Errors
    /// If the variable names no set, or one that this CPU lacks.
    pub fn chosen() -> Result<Self, String> {
        static CHOSEN: OnceLock<Result<Isa, String>> = OnceLock::new();
        let chosen = CHOSEN.get_or_init(|| match std::env::var_os("PELTON_ISA") {
            Some(name) => Self::named(&name.to_string_lossy()),
            None => Ok(Self::detect()),
        });
        chosen.clone()
    }

    /// The set of a name.
    fn named(name: &str) -> Result<Self, String> {
        let names: Vec<&str> = Self::available().map(|isa| isa.set().name()).collect();
        let found = Self::available().find(|isa| isa.set().name() == name);
        found.ok_or_else(|| {
            let names = names.join(", ");
            match InstructionSet::ALL.iter().any(|set| set.name() == name) {
                true => {
                    format!("PELTON_ISA={name}: this CPU lacks the set, expected one of {names}")
                }
                false => format!("PELTON_ISA={name}: no such set, expected one of {names}"),
            }
        })
    }

    /// The sets of this CPU, from the least to the most capable.
    pub fn available() -> impl DoubleEndedIterator<Item = Self> {
        InstructionSet::ALL.into_iter().filter(|set| set.is_detected()).map(Self)
    }

    /// The set that the CPU has.
    pub const fn set(self) -> InstructionSet {
        self.0
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            InstructionSet::Portable => "portable",
            InstructionSet::Avx2 => "AVX2",
            InstructionSet::AvxVnni => "AVX-VNNI",
            InstructionSet::Avx512 => "AVX-512",
            InstructionSet::Avx512Vnni => "AVX-512 VNNI",
            InstructionSet::Neon => "NEON",
            InstructionSet::NeonDotProd => "NEON dotprod",
            InstructionSet::NeonI8mm => "NEON i8mm",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_names() {
        assert_eq!(Isa::named("portable"), Ok(Isa::PORTABLE));
        for isa in Isa::available() {
            assert_eq!(Isa::named(isa.set().name()), Ok(isa));
        }
        for (name, expected) in [("sse9", "no such set"), ("", "no such set")] {
            assert!(Isa::named(name).unwrap_err().contains(expected));
        }
        let lacked = if cfg!(target_arch = "x86_64") { "neon-i8mm" } else { "avx2" };
        assert!(Isa::named(lacked).unwrap_err().contains("this CPU lacks the set"));
    }
}
