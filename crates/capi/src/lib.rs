//! The C interface of Pelton. `include/pelton.h` is made of this crate by
//! cbindgen, and `docs/c.md` describes it.
//!
//! Each function is one call of the crate `pelton` within `guard`: panics and errors become codes.
//! Handles are keys of registries (`handles`), never addresses. Memory of the caller is read and
//! written in `memory` alone.
//!
//! The names are those of the header, and the rules of pointers are at its top.

#![allow(
    non_camel_case_types,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    clippy::upper_case_acronyms,
    clippy::enum_variant_names,
    reason = "the interface is one of C"
)]

mod callback;
mod chat;
mod conversation;
mod embed;
mod engine;
mod error;
mod error_calls;
mod fault;
mod feed;
mod generate;
mod grammar;
mod guard;
mod handles;
mod library;
mod listener;
mod live;
mod load_options;
mod log;
mod memory;
mod model;
mod model_facts;
mod options;
mod queue;
mod reading;
mod request;
mod request_options;
mod rerank;
mod session;
mod settings;
mod status;
mod stream;
mod tensors;
mod text;
mod token;
mod tokens;
mod transcribe_options;
mod transcription;

pub use self::{
    callback::*, chat::*, embed::*, engine::*, error::*, error_calls::*, generate::*, grammar::*,
    library::*, live::*, log::*, model::*, model_facts::*, options::*, request::*, rerank::*,
    session::*, status::*, stream::*, tensors::*, text::*, token::*, tokens::*, transcription::*,
};

/// The names of options and facts by the kind of call that takes them, for the test of `docs/c.md`.
#[doc(hidden)]
pub fn names() -> Vec<(&'static str, Vec<&'static str>)> {
    use settings::names;
    vec![
        ("engine", names(engine::SETTINGS)),
        ("load", load_options::names()),
        ("request", names(request_options::SETTINGS)),
        ("embed", names(embed::SETTINGS)),
        ("rerank", names(rerank::SETTINGS)),
        ("transcribe", names(transcribe_options::SETTINGS)),
        ("model", model_facts::names().collect()),
        ("stream", [stream::numbers(), stream::TEXTS.to_vec()].concat()),
        ("grammar", grammar::KINDS.to_vec()),
    ]
}
