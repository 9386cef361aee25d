//! Selects the function that is compiled for an instruction set.

use super::lanes::Body;
#[cfg(target_arch = "aarch64")]
use super::neon;
use super::portable::Portable;
#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::isa::{InstructionSet, Isa};

/// Runs a kernel compiled for `isa`.
pub(crate) fn dispatch(isa: Isa, body: impl Body) {
    match isa.set() {
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 | InstructionSet::Avx512Vnni => {
            // SAFETY: an `Isa` exists only after the detection of its instructions.
            unsafe { x86::avx512(body) }
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        InstructionSet::Avx2 | InstructionSet::AvxVnni => unsafe { x86::avx2(body) },
        #[cfg(target_arch = "aarch64")]
        InstructionSet::Neon | InstructionSet::NeonDotProd | InstructionSet::NeonI8mm => {
            // SAFETY: as above.
            unsafe { neon::neon(body) }
        }
        // `Portable`, and the sets of other architectures
        _ => body.run(Portable),
    }
}
