//! The sizes that a speech model is loaded for.

use pelton_graph::KvType;

use crate::{Error, LoadProgress, api::ProgressCallback};

/// The sizes that a speech model is loaded for. It allocates nothing of its own size afterwards.
///
/// ```
/// use pelton::SpeechOptions;
///
/// let options = SpeechOptions::default().windows(4).beams(5);
/// assert_eq!((options.windows, options.beams), (4, 5));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SpeechOptions {
    /// The most encoded windows that live at the same time, 1 to 64; by default 1.
    pub windows: usize,
    /// The most hypotheses of a window between two steps, 1 to 32; by default 5. Twice as many live
    /// while beams are replaced.
    pub beams: usize,
    /// The element type of the caches; by default f16.
    pub kv: KvType,
    progress: Option<ProgressCallback>,
}

impl Default for SpeechOptions {
    fn default() -> Self {
        Self { windows: 1, beams: 5, kv: KvType::F16, progress: None }
    }
}

impl SpeechOptions {
    /// Sets the most encoded windows, 1 to 64.
    #[must_use]
    pub fn windows(mut self, windows: usize) -> Self {
        self.windows = windows;
        self
    }

    /// Sets the most hypotheses of a window, 1 to 32.
    #[must_use]
    pub fn beams(mut self, beams: usize) -> Self {
        self.beams = beams;
        self
    }

    /// Sets the element type of the caches.
    #[must_use]
    pub fn kv(mut self, kv: KvType) -> Self {
        self.kv = kv;
        self
    }

    /// Sets a function that is called now and then during a load, on the loading thread.
    #[must_use]
    pub fn progress(mut self, call: impl Fn(LoadProgress) + Send + Sync + 'static) -> Self {
        self.progress = Some(ProgressCallback::new(call));
        self
    }

    pub(super) fn report(&self, done: u64, total: u64) {
        if let Some(call) = &self.progress {
            call.report(done, total);
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let sizes = [("windows", self.windows, 64), ("beams", self.beams, 32)];
        match sizes.into_iter().find(|(_, found, most)| !(1..=*most).contains(found)) {
            None => Ok(()),
            Some((option, found, most)) => Err(Error::Option {
                option,
                found: found.to_string(),
                expected: format!("1 to {most}"),
            }),
        }
    }
}
