//! CodeShell.

use super::architecture::Architecture;
use super::starcoder2::STARCODER2;

pub(super) const CODESHELL: Architecture = Architecture { name: "codeshell", ..STARCODER2 };
