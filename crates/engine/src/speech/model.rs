//! A loaded speech model, as Whisper's decoding rules see it.

use std::sync::{Arc, OnceLock};

use pelton_graph::{
    Backend, BuildOptions, Executable, Limits, Plan, Ranking, Weight, build_with, pages_for,
};
use pelton_speech::{
    Alignment, Append, Filters, Hypothesis, Ranked, Recognizer, Sizes, Vocabulary, Window,
};
use pelton_tokenizer::Tokenizer;
use pelton_weights::Checkpoint;

use super::options::SpeechOptions;
use super::pages::Pages;
use super::state::{Branch, Encoded};
use crate::{Error, files::FileWatch, results::results};

/// Windows of one pass of the encoder at most.
const WINDOWS_PER_PASS: usize = 16;
/// Rows of a pass whose logits are computed, at least: those of the passes for the times of words.
const LEAST_WANTS: usize = 16;

/// The cache groups of a plan with an encoder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Groups {
    /// Keys and values of tokens.
    pub(super) tokens: usize,
    /// Keys and values of encoded windows.
    pub(super) cross: usize,
    /// Those that the encoder alone reads.
    pub(super) own: usize,
}

/// A model that recognizes speech, loaded by [`Engine::load_speech`](crate::Engine::load_speech).
///
/// It computes: [`Recognizer`] has its methods. The rules that make text of its logits are in
/// `pelton-speech`. One caller at a time has it.
pub struct SpeechModel {
    pub(super) executable: Box<dyn Executable>,
    /// The files whose bytes it reads.
    pub(super) files: FileWatch,
    checkpoint: Arc<Checkpoint>,
    tokenizer: Option<Arc<Tokenizer>>,
    /// The special tokens, found at the first use.
    pub(super) vocabulary: OnceLock<Vocabulary>,
    pub(super) groups: Groups,
    /// Values of a frame of features.
    pub(super) mels: usize,
    /// Positions of a window.
    pub(super) positions: usize,
    /// Tokens of a hypothesis.
    pub(super) context: usize,
    pub(super) vocab: usize,
    /// Rows, and rows with logits, of a pass.
    pub(super) rows: usize,
    pub(super) wants: usize,
    /// Windows of a pass of the encoder.
    pub(super) windows_per_pass: usize,
    /// Elements of the heads that follow the audio, of one row; 0 if the file names none.
    pub(super) alignment_width: usize,
    pub(super) head_dim: usize,
    pub(super) windows: Vec<Option<Encoded>>,
    /// The hypotheses, each in the slot of its index.
    pub(super) hypotheses: Vec<Option<Branch>>,
    pub(super) window_pages: Pages,
    pub(super) token_pages: Pages,
    /// Features as rows read them, kept for their memory.
    pub(super) unfolded: Vec<f32>,
    /// Logits of several passes.
    pub(super) logits: Vec<f32>,
}

impl SpeechModel {
    pub(crate) fn load(
        backend: &dyn Backend,
        checkpoint: Checkpoint,
        options: &SpeechOptions,
    ) -> Result<Self, Error> {
        options.check()?;
        let plan = build_with(&checkpoint, &BuildOptions::default())?;
        // fusion renumbers buffers, so nothing that names one is read before it
        let plan = plan.fuse(&|op, plan| backend.accepts(op, plan));
        let Some(encoder) = plan.encoder else {
            return Err(Error::Output {
                file: checkpoint.name().to_owned(),
                found: results(plan.output),
                expected: "the text of speech, as Whisper",
            });
        };
        let tokenizer = match Tokenizer::from_metadata(checkpoint.metadata()) {
            Ok(tokenizer) => Some(Arc::new(tokenizer)),
            Err(pelton_tokenizer::Error::NoVocabulary) => None,
            Err(error) => return Err(error.into()),
        };
        let groups = Groups {
            tokens: (0..plan.groups.len())
                .find(|&group| group != encoder.cross && group != encoder.own)
                .unwrap_or_default(),
            cross: encoder.cross,
            own: encoder.own,
        };
        let windows_per_pass = windows_per_pass(backend, &plan, options);
        let limits = limits(&plan, groups, windows_per_pass, options);
        let head_dim = plan.caches.first().map_or(1, |cache| cache.key_dim);
        let checkpoint = Arc::new(checkpoint);
        let executable = backend.load(
            plan.clone(),
            Arc::clone(&checkpoint),
            limits.clone(),
            &mut |done, total| options.report(done, total),
        )?;
        // weights of a file that was cut meanwhile are zeros
        checkpoint.check_files()?;
        let files = FileWatch::of(&*executable, checkpoint.files());
        let loaded = Self {
            executable,
            files,
            checkpoint,
            tokenizer,
            vocabulary: OnceLock::new(),
            groups,
            mels: (plan.buffer(encoder.features).width - 1) / 9,
            positions: encoder.positions,
            context: limits.context,
            vocab: plan.vocab,
            rows: limits.rows,
            wants: limits.wants,
            windows_per_pass,
            alignment_width: encoder.kept.map_or(0, |id| plan.buffer(id).width),
            head_dim,
            windows: (0..options.windows).map(|_| None).collect(),
            hypotheses: (0..limits.sequences - windows_per_pass).map(|_| None).collect(),
            window_pages: Pages::new(limits.pages[groups.cross]),
            token_pages: Pages::new(limits.pages[groups.tokens]),
            unfolded: Vec::new(),
            logits: Vec::new(),
        };
        tracing::info!(steps = plan.steps.len(), ?limits, "the speech model is loaded");
        Ok(loaded)
    }

    /// The vocabulary, with the special tokens of languages, tasks and times.
    ///
    /// # Errors
    ///
    /// [`Error::NoVocabulary`] if the file has none.
    pub fn tokenizer(&self) -> Result<&Tokenizer, Error> {
        self.shared_tokenizer().map(|tokenizer| &**tokenizer)
    }

    pub(super) fn shared_tokenizer(&self) -> Result<&Arc<Tokenizer>, Error> {
        self.tokenizer.as_ref().ok_or_else(|| Error::NoVocabulary {
            file: self.name().into(),
            found: "the file has no vocabulary",
        })
    }

    /// The file that the model came from. It needs the feature `unstable`.
    #[cfg(feature = "unstable")]
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The files whose bytes it reads, which must not change; none where the load has copied all
    /// weights. It needs the feature `unstable`.
    #[cfg(feature = "unstable")]
    pub fn files(&self) -> &pelton_weights::MappedFiles {
        self.files.files()
    }

    /// The name of the file that the model came from.
    pub fn name(&self) -> &str {
        self.checkpoint.name()
    }
}

/// Windows of a pass of the encoder: as many as the rows with which a backend is fast.
fn windows_per_pass(backend: &dyn Backend, plan: &Plan, options: &SpeechOptions) -> usize {
    let bytes = |weight: &Weight| weight.dtype.bytes_of(weight.len()).unwrap_or(0) as u64;
    let rows = backend.prompt_rows(plan, plan.weights.iter().map(bytes).sum());
    (rows / plan.encoded_positions()).clamp(1, WINDOWS_PER_PASS.min(options.windows))
}

/// The sizes of the executable.
fn limits(plan: &Plan, groups: Groups, per_pass: usize, options: &SpeechOptions) -> Limits {
    let positions = plan.encoded_positions();
    let beams = options.windows * options.beams;
    let mut pages = vec![0; plan.groups.len()];
    // a forked hypothesis shares all full pages, and has a last one of its own
    pages[groups.tokens] = beams * (pages_for(plan.context) + 1);
    pages[groups.cross] = options.windows * pages_for(positions);
    pages[groups.own] = per_pass * pages_for(positions);
    Limits {
        rows: (per_pass * positions).max(plan.context),
        wants: beams.max(LEAST_WANTS),
        sequences: 2 * beams + per_pass,
        context: plan.context,
        pages,
        snapshots: 0,
        kv: options.kv,
        tokens: plan.vocab,
        bias: 0,
    }
}

impl Recognizer for SpeechModel {
    type Error = Error;

    fn sizes(&self) -> Sizes {
        Sizes {
            mels: self.mels,
            positions: self.positions,
            context: self.context,
            vocab: self.vocab,
            hypotheses: self.hypotheses.len(),
            windows: self.windows.len(),
        }
    }

    fn encode(&mut self, features: &[&[f32]]) -> Result<Vec<Window>, Error> {
        self.encode_windows(features)
    }

    fn free_window(&mut self, window: Window) {
        self.release_window(window);
    }

    fn begin(&mut self, window: Window) -> Result<Hypothesis, Error> {
        self.begin_branch(window)
    }

    fn fork(&mut self, hypothesis: Hypothesis) -> Result<Hypothesis, Error> {
        self.fork_branch(hypothesis)
    }

    fn free(&mut self, hypothesis: Hypothesis) {
        self.release(hypothesis);
    }

    fn append(&mut self, appends: &[Append<'_>]) -> Result<&[f32], Error> {
        self.append_tokens(appends)
    }

    fn ranks(&self) -> usize {
        if self.executable.ranks() { Ranking::MOST } else { 0 }
    }

    fn append_ranked(
        &mut self,
        appends: &[Append<'_>],
        filters: &Filters<'_>,
    ) -> Result<Vec<Ranked>, Error> {
        self.append_and_rank(appends, filters)
    }

    fn align(&mut self, window: Window, tokens: &[u32]) -> Result<Alignment, Error> {
        self.align_tokens(window, tokens)
    }
}
