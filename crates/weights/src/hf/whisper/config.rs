//! Sizes by `config.json`, and the features by `preprocessor_config.json`.

use std::path::Path;

use crate::Error;
use crate::hf::json::{CONFIG_BYTES, Object, shown};
use crate::whisper::{Limit, Side, Sizes, limits};

/// Keys that change nothing here: training, heads of other tasks, and rules of decoding, which are
/// OpenAI's for all files.
const INERT: [&str; 16] = [
    "apply_spec_augment",
    "classifier_proj_size",
    "decoder_layerdrop",
    "encoder_layerdrop",
    "forced_decoder_ids",
    "init_std",
    "is_encoder_decoder",
    "mask_feature_length",
    "mask_feature_min_masks",
    "mask_feature_prob",
    "mask_time_length",
    "mask_time_min_masks",
    "mask_time_prob",
    "median_filter_width",
    "num_hidden_layers",
    "use_weighted_layer_sum",
];

/// Reads the sizes, and checks the keys of the forward pass.
pub(super) fn sizes(all: &Object) -> Result<Sizes, Error> {
    all.disregard(&INERT);
    let size = |key: &str, limit: Limit| {
        let value = all.required_size(&[key])?;
        limit.check(value).map_err(|expected| all.invalid(key, value, &expected))
    };
    let width = size("d_model", limits::WIDTH)?;
    let side = |name: &str, positions: &str| {
        let key = format!("{name}_attention_heads");
        let heads = size(&key, limits::HEADS)?;
        if !width.is_multiple_of(heads) {
            return Err(all.invalid(&key, heads, &format!("a divisor of d_model {width}")));
        }
        Ok(Side {
            context: size(positions, limits::CONTEXT)?,
            heads,
            layers: size(&format!("{name}_layers"), limits::LAYERS)?,
            inner: size(&format!("{name}_ffn_dim"), limits::WIDTH)?,
        })
    };
    let sizes = Sizes {
        mels: size("num_mel_bins", limits::MELS)?,
        width,
        vocab: size("vocab_size", limits::VOCAB)?,
        encoder: side("encoder", "max_source_positions")?,
        decoder: side("decoder", "max_target_positions")?,
    };
    if let Some(found) = all.text(&["activation_function"])?
        && found != "gelu"
    {
        return Err(all.invalid("activation_function", found, "gelu"));
    }
    for (key, only) in [("scale_embedding", false), ("tie_word_embeddings", true)] {
        if let Some(found) = all.flag(&[key])?
            && found != only
        {
            return Err(all.invalid(key, found, &format!("{only}, as no other value is computed")));
        }
    }
    Ok(sizes)
}

/// Rejects features other than Whisper's, where `preprocessor_config.json` states them.
pub(super) fn check_features(folder: &Path, sizes: &Sizes) -> Result<(), Error> {
    let path = folder.join("preprocessor_config.json");
    let Some(features) = Object::read_if_present(&path, CONFIG_BYTES)? else { return Ok(()) };
    let expected = [
        ("feature_size", sizes.mels),
        ("sampling_rate", 16_000),
        ("n_fft", 400),
        ("hop_length", 160),
    ];
    for (key, expected) in expected {
        if let Some(value) = features.get(key)
            && value.as_u64() != Some(expected as u64)
        {
            return Err(features.invalid(key, shown(value), &expected.to_string()));
        }
    }
    Ok(())
}
