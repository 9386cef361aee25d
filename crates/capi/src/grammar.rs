//! Grammars that generated text keeps to.

use std::{ffi::c_char, ptr};

use pelton::Constraint;

use crate::{
    error::pelton_error,
    fault::Fault,
    guard::guard,
    handles::{self, handle},
    memory::{out, text},
    model::pelton_model,
    status::pelton_status,
};

/// A grammar that generated text keeps to. It does not change, and any thread can use it.
pub struct pelton_grammar;

handle!(pelton_grammar, Constraint);

/// The kinds of grammars.
pub(crate) const KINDS: [&str; 5] = ["json_schema", "json_object", "regex", "lark", "gbnf"];

fn constraint(kind: &str, source: &str) -> Result<Constraint, Fault> {
    Ok(match kind {
        "json_schema" => Constraint::json_schema(source)
            .map_err(|error| Fault::invalid(format_args!("{error}")))?,
        "json_object" => Constraint::JsonObject,
        "regex" => Constraint::Regex(source.to_owned()),
        "lark" => Constraint::Lark(source.to_owned()),
        "gbnf" => Constraint::Gbnf(source.to_owned()),
        _ => {
            let kinds = KINDS.join(", ");
            return Err(Fault::invalid(format_args!(
                "the kind of grammar is '{kind}', expected one of {kinds}"
            )));
        }
    })
}

/// Compiles a grammar for a model. `kind` is `json_schema`, `json_object` (the source is not
/// read), `regex`, `lark` or `gbnf`. A grammar that does not compile is an error that names
/// its keyword or place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_grammar_new(
    model: *const pelton_model,
    kind: *const c_char,
    kind_length: usize,
    source: *const c_char,
    source_length: usize,
    grammar: *mut *mut pelton_grammar,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let model = handles::get(model)?;
            let (kind, source) =
                (text(kind, kind_length, "kind")?, text(source, source_length, "source")?);
            let place = out(grammar, "grammar")?;
            let constraint = constraint(kind, source)?;
            model.text()?.check_constraint(&constraint)?;
            place.set(handles::open(constraint));
            Ok(())
        })
    }
}

/// Closes a grammar. Requests that have it keep it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_grammar_free(grammar: *mut pelton_grammar) -> pelton_status {
    // SAFETY: there is no place for an error.
    unsafe { guard(ptr::null_mut(), || handles::close(grammar).map(drop)) }
}
