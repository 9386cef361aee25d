//! The choice of a row.

use super::row::Format;
use super::table::{FORMATS, PLAIN};

impl Format {
    /// The format of a chat template: the first row of [`FORMATS`] whose clues are in its source.
    pub fn detect(template: &str) -> &'static Format {
        let fits = |format: &&Format| {
            format.clues.iter().any(|clues| clues.iter().all(|clue| template.contains(clue)))
        };
        FORMATS.iter().find(fits).unwrap_or(&PLAIN)
    }

    /// The row with a name.
    pub fn named(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Whether a prompt ends within reasoning: the template has opened it.
    ///
    /// ```
    /// let format = pelton_chat::Format::named("hermes").unwrap();
    /// assert!(format.is_reasoning("<|im_start|>assistant\n<think>\n"));
    /// assert!(!format.is_reasoning("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
    /// ```
    pub fn is_reasoning(&self, prompt: &str) -> bool {
        self.reasoning.is_some_and(|reasoning| prompt.trim_end().ends_with(reasoning.open))
    }
}
