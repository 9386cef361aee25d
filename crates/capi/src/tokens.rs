//! Text to tokens and back.

use std::{
    ffi::c_char,
    ptr,
    sync::{Arc, Mutex, PoisonError},
};

use pelton::{Special, Tokenizer, tokenizer::DecodeState};

use crate::{
    error::pelton_error,
    fault::Fault,
    guard::guard,
    handles::{self, handle},
    memory::{array, buffer, out, text},
    model::pelton_model,
    status::pelton_status,
    text::{give, pelton_text},
};

/// Special tokens that are written in the text count as such. Without it they are text.
pub const PELTON_TOKENIZE_SPECIAL: u32 = 1;
/// Encode as prompts are: special tokens count, and those that belong before and
/// after a text are added.
pub const PELTON_TOKENIZE_PROMPT: u32 = 2;
/// Control tokens become text when ids are decoded.
pub const PELTON_DETOKENIZE_SPECIAL: u32 = 1;
/// The id that no token has.
pub const PELTON_NO_TOKEN: u32 = 0xFFFF_FFFF;

/// A decoder of a text token by token: one token is not always whole characters. It goes on without
/// its model. One thread at a time uses it.
pub struct pelton_decoder;

/// The state between two tokens.
pub(crate) struct DecoderObject {
    tokenizer: Arc<Tokenizer>,
    state: Mutex<DecodeState>,
    special: bool,
}

handle!(pelton_decoder, DecoderObject);

fn check_flags(flags: u32, known: u32) -> Result<(), Fault> {
    match flags & !known {
        0 => Ok(()),
        _ => Err(Fault::invalid(format_args!(
            "flags are {flags}, expected a sum of bits of {known}"
        ))),
    }
}

/// Encodes a text to ids. `flags` are 0 or a sum of `PELTON_TOKENIZE_*`. Only the count is written
/// if `ids` is NULL and `capacity` 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_tokenize(
    model: *const pelton_model,
    data: *const c_char,
    length: usize,
    flags: u32,
    ids: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let model = handles::get(model)?;
            let data = text(data, length, "data")?;
            let ids = buffer(ids, capacity, count, "ids")?;
            check_flags(flags, PELTON_TOKENIZE_SPECIAL | PELTON_TOKENIZE_PROMPT)?;
            let tokenizer = model.text()?.tokenizer()?;
            let tokens = match flags {
                0 => tokenizer.encode(data, Special::Plain),
                PELTON_TOKENIZE_SPECIAL => tokenizer.encode(data, Special::Parse),
                _ => tokenizer.encode_prompt(data),
            };
            ids.fill(&tokens.map_err(pelton::Error::from)?)
        })
    }
}

/// Decodes ids to a text. `flags` are 0 or `PELTON_DETOKENIZE_SPECIAL`. Bytes that are no
/// characters become U+FFFD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_detokenize(
    model: *const pelton_model,
    ids: *const u32,
    count: usize,
    flags: u32,
    text: *mut *mut pelton_text,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let model = handles::get(model)?;
            let (ids, place) = (array(ids, count, "ids")?, out(text, "text")?);
            check_flags(flags, PELTON_DETOKENIZE_SPECIAL)?;
            give(place, model.text()?.tokenizer()?.decode(ids, flags != 0));
            Ok(())
        })
    }
}

/// Makes a decoder of one text. `flags` as those of `pelton_detokenize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_decoder_new(
    model: *const pelton_model,
    flags: u32,
    decoder: *mut *mut pelton_decoder,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let model = handles::get(model)?;
            let place = out(decoder, "decoder")?;
            check_flags(flags, PELTON_DETOKENIZE_SPECIAL)?;
            let special = flags != 0;
            let tokenizer = model.text()?.keep_tokenizer()?;
            let state = Mutex::new(DecodeState::new(special));
            place.set(handles::open(DecoderObject { tokenizer, state, special }));
            Ok(())
        })
    }
}

/// Adds a token, and returns the characters that are complete now, possibly none. `PELTON_NO_TOKEN`
/// ends the text and returns its rest; the next token begins another one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_decoder_push(
    decoder: *mut pelton_decoder,
    id: u32,
    text: *mut *mut pelton_text,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let decoder = handles::get(decoder)?;
            let place = out(text, "text")?;
            let mut state = decoder.state.lock().unwrap_or_else(PoisonError::into_inner);
            let new = match id {
                PELTON_NO_TOKEN => {
                    std::mem::replace(&mut *state, DecodeState::new(decoder.special)).finish()
                }
                id if (id as usize) < decoder.tokenizer.vocab_size() => {
                    state.push(&decoder.tokenizer, id)
                }
                token => {
                    let vocab = decoder.tokenizer.vocab_size();
                    return Err(pelton::Error::UnknownToken { token, vocab }.into());
                }
            };
            give(place, new);
            Ok(())
        })
    }
}

/// Closes a decoder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_decoder_free(decoder: *mut pelton_decoder) -> pelton_status {
    // SAFETY: there is no place for an error.
    unsafe { guard(ptr::null_mut(), || handles::close(decoder).map(drop)) }
}
