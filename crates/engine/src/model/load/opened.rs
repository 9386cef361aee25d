//! A checkpoint and its adapters.

use pelton_weights::{Checkpoint, Lora};

use super::super::loras::check_names;
use crate::{Error, api::LoadOptions, vision::OpenTower};

/// A checkpoint whose weights have the format of a load, and the adapters for it.
pub(super) struct Opened {
    pub(super) checkpoint: Checkpoint,
    pub(super) adapters: Vec<Lora>,
    pub(super) tower: Option<OpenTower>,
}

impl Opened {
    pub(super) fn new(
        mut checkpoint: Checkpoint,
        tower: Option<OpenTower>,
        options: &LoadOptions,
    ) -> Result<Self, Error> {
        check_names(&options.loras)?;
        if let Some(to) = options.quantize {
            checkpoint =
                checkpoint.quantized(to, &mut |done, total| options.report(done, total))?;
        }
        let open = |adapter: &crate::api::Lora| Lora::open(&adapter.path, &checkpoint);
        let adapters = options.loras.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { checkpoint, adapters, tower })
    }
}
