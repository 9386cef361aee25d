//! Errors that `main` returns.

use std::{error::Error, fmt};

/// An error that `main` returns. The standard library writes it with [`Debug`](fmt::Debug), which
/// is a sentence here: the error with its causes.
///
/// ```no_run
/// use pelton::{Engine, LoadOptions};
///
/// fn main() -> Result<(), pelton::Report> {
///     let engine = Engine::builder().build()?;
///     // Error: no-such-model.gguf: cannot be read: No such file or directory (os error 2)
///     engine.load("no-such-model.gguf", &LoadOptions::default())?;
///     Ok(())
/// }
/// ```
pub struct Report(Box<dyn Error + Send + Sync>);

impl<E: Error + Send + Sync + 'static> From<E> for Report {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let sentence = error.to_string();
            // most errors say their cause themselves
            if !text.contains(&sentence) {
                text.push_str(": ");
                text.push_str(&sentence);
            }
            cause = error.source();
        }
        f.write_str(&text)
    }
}
