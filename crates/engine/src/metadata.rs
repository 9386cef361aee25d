//! The metadata of a model with the values of a load.

use pelton_graph::Plan;
use pelton_weights::{Checkpoint, Keys, MAX_SIZE, Value};

use crate::{
    Error,
    api::{LoadOptions, RopeOptions, RopeScaling},
};

/// The fault of a model with a table of positions, or with slopes of attention.
const NO_ROTATIONS: &str = "the model has no rotations";

/// Factors of frequencies for long contexts (LongRoPE).
const TABLES: [&str; 2] = ["rope_factors_long.weight", "rope_factors_short.weight"];

/// A checkpoint with the metadata that a load has in place of its own.
///
/// # Errors
///
/// [`Error::RopeScaling`] if the extension lacks its factor or the model has tables for it.
pub(crate) fn changed(checkpoint: Checkpoint, options: &LoadOptions) -> Result<Checkpoint, Error> {
    let architecture = |checkpoint: &Checkpoint| {
        checkpoint.metadata().string("general.architecture").map(str::to_owned)
    };
    let mut changed = checkpoint;
    if !options.metadata.is_empty() {
        let (whole, others): (Vec<_>, Vec<_>) =
            options.metadata.iter().partition(|change| !change.key.starts_with('*'));
        let of = |change: &crate::MetadataChange| (change.key.clone(), change.value.clone());
        changed = changed.with_metadata(whole.into_iter().map(of));
        // the architecture may be one of them
        let name = architecture(&changed)?;
        let of = |change: &crate::MetadataChange| {
            (change.key.replacen('*', &name, 1), change.value.clone())
        };
        changed = changed.with_metadata(others.into_iter().map(of));
    }
    if options.rope == RopeOptions::default() {
        return Ok(changed);
    }
    let of_ropes = ropes(&changed, &options.rope)?;
    let name = architecture(&changed)?;
    let of_ropes = of_ropes.into_iter().map(|(key, value)| (format!("{name}.{key}"), value));
    Ok(changed.with_metadata(of_ropes))
}

/// Refuses rotations for a plan without any.
///
/// # Errors
///
/// [`Error::RopeScaling`].
pub(crate) fn check(plan: &Plan, options: &LoadOptions) -> Result<(), Error> {
    if options.rope == RopeOptions::default() || !plan.ropes.is_empty() {
        return Ok(());
    }
    let scaling = options.rope.scaling.unwrap_or(RopeScaling::Linear).name();
    Err(Error::RopeScaling { scaling, fault: NO_ROTATIONS })
}

/// The keys of other rotations.
fn ropes(checkpoint: &Checkpoint, rope: &RopeOptions) -> Result<Vec<(&'static str, Value)>, Error> {
    let keys = Keys::new(checkpoint.metadata())?;
    let mut all = Vec::new();
    if let Some(base) = rope.base {
        all.push(("rope.freq_base", Value::F32(base)));
    }
    if rope.scaling.is_none() && rope.factor.is_none() && rope.original_context.is_none() {
        return Ok(all);
    }
    let stated = keys.opt_string("rope.scaling.type")?;
    let scaling = match (rope.scaling, stated) {
        (Some(scaling), _) => scaling,
        (None, Some("yarn")) => RopeScaling::Yarn,
        (None, _) => RopeScaling::Linear,
    };
    let fault = |fault| Err(Error::RopeScaling { scaling: scaling.name(), fault });
    if scaling != RopeScaling::None && TABLES.iter().any(|table| checkpoint.tensor(table).is_some())
    {
        return fault(
            "the model has tables of factors for long contexts, which no option replaces",
        );
    }
    if checkpoint.tensor("position_embd.weight").is_some() {
        return fault(NO_ROTATIONS);
    }
    if scaling != RopeScaling::Yarn && rope.original_context.is_some() {
        return fault("an original context belongs to yarn alone");
    }
    all.push(("rope.scaling.type", string(scaling.name())));
    let own = keys.size("context_length", MAX_SIZE)?;
    let original = match rope.original_context {
        Some(original) => original,
        None => keys.opt_size("rope.scaling.original_context_length", MAX_SIZE)?.unwrap_or(own),
    };
    if scaling == RopeScaling::None {
        // the context of files with an extension is the extended one
        all.push(("context_length", size(original)));
        return Ok(all);
    }
    let factor = match rope.factor {
        Some(factor) => factor,
        None => match keys.opt_positive("rope.scaling.factor")? {
            Some(factor) => factor,
            None => return fault("it needs a factor: rope_scale"),
        },
    };
    all.push(("rope.scaling.factor", Value::F32(factor)));
    if scaling == RopeScaling::Yarn {
        all.push(("rope.scaling.original_context_length", size(original)));
    }
    let extended = (original as f64 * f64::from(factor)) as usize;
    all.push(("context_length", size(extended.clamp(own, MAX_SIZE))));
    Ok(all)
}

fn string(text: &str) -> Value {
    Value::String(text.as_bytes().to_vec().into())
}

/// A size, which is at most [`MAX_SIZE`].
fn size(size: usize) -> Value {
    Value::U32(size as u32)
}
