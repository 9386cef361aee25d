//! Flags of how much a model reasons.

use pelton::chat::Chat;
use serde_json::{Map, Value};

use crate::defaults::kwargs;

/// Flags of variables of the chat template.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ThinkArgs {
    /// Whether the model reasons before it answers, if its template has such an option
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub(crate) think: Option<bool>,
    /// How much the model reasons, if its template has such an option: low, medium, high
    #[arg(long, value_name = "LEVEL")]
    pub(crate) reasoning_effort: Option<String>,
    /// A JSON object of variables of the template; may be given several times
    #[arg(long, alias = "kwargs", value_name = "JSON", value_parser = kwargs)]
    chat_template_kwargs: Vec<Map<String, Value>>,
}

impl ThinkArgs {
    /// The variables of the template.
    pub(crate) fn kwargs(&self) -> Map<String, Value> {
        self.chat_template_kwargs.iter().flat_map(|map| map.clone()).collect()
    }

    /// Sets what the flags say.
    pub(crate) fn apply(&self, chat: &mut Chat) {
        chat.enable_thinking = self.think;
        chat.reasoning_effort.clone_from(&self.reasoning_effort);
        chat.kwargs = self.kwargs();
    }
}
