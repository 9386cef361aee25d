//! StarCoder 1 and SantaCoder: GPT-2 with one key head.

use super::architecture::Architecture;
use super::gpt2::GPT2;

pub(super) const STARCODER: Architecture = Architecture { name: "starcoder", ..GPT2 };
