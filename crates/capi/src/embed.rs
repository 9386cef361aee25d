//! Embeddings of texts.

use std::ffi::c_char;

use pelton::{EmbedOptions, Pooling, Prompt};

use crate::{
    error::pelton_error,
    fault::Fault,
    guard::guard,
    handles,
    memory::{array, buffer, text},
    model::pelton_model,
    model_facts::embedding_width,
    options::{self, pelton_options},
    settings::{Setting, count, flag, seconds, setting},
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

pub(crate) const SETTINGS: &[Setting<EmbedOptions>] = &[
    setting!("dimensions", count, |options, count| options.dimensions = Some(count)),
    setting!("normalize", flag, |options, normalize| options.normalize = normalize),
    setting!("deadline", seconds, |options, time| options.deadline = Some(time)),
];

/// The texts of an array.
///
/// # Safety
///
/// `count` texts can be read at `list` and their bytes where they point to, while `'a` lasts.
pub(crate) unsafe fn texts_of<'a>(
    list: *const pelton_string,
    count: usize,
    name: &str,
) -> Result<Vec<&'a str>, Fault> {
    // SAFETY: the caller promises the same.
    let list = unsafe { array(list, count, name)? };
    // SAFETY: the caller promises the same of each text.
    list.iter().map(|one| unsafe { text(one.data, one.length, "a text") }).collect()
}

/// Embeds texts: `[texts, dimensions]` values, or with the pooling `none` a vector for each token.
/// The texts run at the same time, and with those of other calls. Only the count is written if
/// `values` is NULL and `capacity` 0. `options` may be NULL.
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
            let texts = texts_of(texts, text_count, "texts")?;
            let texts: Vec<Prompt> = texts.into_iter().map(Prompt::from).collect();
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
