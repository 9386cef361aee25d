//! The logits of a prompt, next to other requests.

use pelton_graph::OutputKind;
use web_time::Instant;

use super::{Model, value_requests::Common};
use crate::{
    Error,
    api::{Client, LogitRows, Prompt, RequestHandle},
    schedule::WantedRows,
};

impl Model {
    /// Submits a prompt whose logits are wanted: `[vocab]` after its last token, or
    /// `[tokens, vocab]` after each. They are passed to `done`, on the thread that runs the model,
    /// which must not block. The prompt is read whole, with the LoRA adapters of the load.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// use pelton::{Engine, LoadOptions, LogitRows, ModelSource};
    ///
    /// let engine = Engine::builder().build()?;
    /// let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default())?;
    /// let (sender, receiver) = mpsc::channel();
    /// model.submit_logits("Once upon a", LogitRows::Last, move |logits| {
    ///     let _ = sender.send(logits);
    /// })?;
    /// if let Ok(logits) = receiver.recv() {
    ///     println!("{} logits", logits?.len());
    /// }
    /// # Ok::<(), pelton::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if the model has no logits; [`Error::TextTooLong`] if the prompt is longer
    /// than the context. Otherwise as [`submit`](Self::submit).
    pub fn submit_logits(
        &self,
        prompt: impl Into<Prompt>,
        rows: LogitRows,
        done: impl FnOnce(Result<Vec<f32>, Error>) + Send + 'static,
    ) -> Result<RequestHandle, Error> {
        self.loaded.check_output(OutputKind::Logits)?;
        let wanted = match rows {
            LogitRows::Last => WantedRows::Last,
            LogitRows::Each => WantedRows::All,
        };
        let text = self.text(0, &prompt.into())?;
        let common = Common { deadline: None, cache_salt: 0, client: Client::default() };
        self.submit_values(text, wanted, common, Instant::now(), done)
    }
}
