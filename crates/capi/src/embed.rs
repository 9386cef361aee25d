//! Embeddings of texts.

use std::ffi::c_char;

use pelton::{EmbedOptions, Pooling, Prompt};

use crate::{
    error::pelton_error,
    fault::Fault,
    guard::guard,
    handles,
    load_options::seconds,
    memory::{array, buffer, text},
    model::pelton_model,
    model_facts::embedding_width,
    options::{self, pelton_options},
    settings::{Setting, count, flag},
    status::pelton_status,
};

/// A text of the caller.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pelton_string {
    /// UTF-8.
    pub data: *const c_char,
    /// Bytes of it.
    pub length: usize,
}

const SETTINGS: &[Setting<EmbedOptions>] = &[
    Setting {
        name: "dimensions",
        set: |options, value| count(value).map(|dimensions| options.dimensions = Some(dimensions)),
    },
    Setting {
        name: "normalize",
        set: |options, value| flag(value).map(|normalize| options.normalize = normalize),
    },
    Setting {
        name: "deadline",
        set: |options, value| seconds(value).map(|time| options.deadline = Some(time)),
    },
];

/// The names of the options of embeddings.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name)
}

/// Embeds texts: `[texts, dimensions]` values, or with the pooling `none` a vector for each token. The texts
/// run at the same time, and with those of other calls. Only the count is written if `values` is
/// NULL and `capacity` 0. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_embed(
    model: *const pelton_model,
    texts: *const pelton_string,
    text_count: usize,
    options: *const pelton_options,
    values: *mut f32,
    capacity: usize,
    value_count: *mut usize,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let model = handles::get(model)?;
            let texts = array(texts, text_count, "texts")?;
            let texts = texts
                .iter()
                .map(|one| text(one.data, one.length, "a text").map(Prompt::from))
                .collect::<Result<Vec<Prompt>, Fault>>()?;
            let values = buffer(values, capacity, value_count, "values")?;
            let options = options::read(options, SETTINGS)?;
            let model = model.text()?;
            let width = options.dimensions.unwrap_or_else(|| embedding_width(model));
            // the pooling `none` has as many vectors as the texts have tokens
            if values.is_query() && width > 0 && model.pooling()? != Pooling::None {
                values.answer(texts.len().saturating_mul(width));
                return Ok(());
            }
            let all = model.embed(&texts, &options)?;
            let all: Vec<f32> = all.into_iter().flat_map(|embedding| embedding.values).collect();
            values.fill(&all)
        })
    }
}
