//! The state of one job while it is decoded.

use crate::compression::compression_ratio;
use crate::filters::{Bans, Repetition, Rules, penalize};
use crate::language::Language;
use crate::ranked::Ranked;
use crate::recognizer::{Append, Hypothesis};
use crate::softmax::LogSumExp;
use crate::text::strip;
use crate::vocabulary::{TIMESTAMP_SECONDS, Vocabulary};

use super::beam::Beam;
use super::best_row;
use super::control::{Control, Place};
use super::greedy::Greedy;
use super::job::{Decoded, Job};
use super::language::LanguageProbability;
use super::options::DecodeOptions;
use super::prompt::{Prompt, sample_len};
use super::row::{Candidate, Next, Row, Source, candidates};

/// The least mean log-probability that is told; JSON has no infinite number.
const LOGPROB_LEAST: f64 = -1000.0;
/// Logits wanted after a single token.
const LAST: &[usize] = &[0];

/// How the next tokens are chosen.
#[derive(Debug)]
enum Search {
    Greedy(Greedy),
    Beam(Beam),
}

/// The logits of a row that the model ran.
pub(super) struct RowLogits<'l> {
    row: usize,
    logits: &'l [f32],
    /// The tokens that a constraint allows, as a bit set; `None` allows all.
    allowed: Option<Vec<u32>>,
}

/// A job in progress.
pub(super) struct State<'a> {
    pub(super) job: &'a Job,
    language: Language,
    languages: Vec<LanguageProbability>,
    prompt: Prompt,
    /// The indices of the prompt after which logits are wanted: of the start, and the last.
    wants: Vec<usize>,
    rules: Rules,
    search: Search,
    rows: Vec<Row>,
    /// The hypotheses of the rows that the model runs: first one, which has the prompt.
    live: Vec<(usize, Hypothesis)>,
    /// Greatest number of sampled tokens.
    most: usize,
    context: usize,
    no_speech_prob: f64,
}

impl<'a> State<'a> {
    /// A job before its first pass.
    ///
    /// # Errors
    ///
    /// The prompt and the prefix leave no room in the context.
    pub(super) fn new(
        vocabulary: &Vocabulary,
        job: &'a Job,
        language: Language,
        languages: Vec<LanguageProbability>,
        context: usize,
    ) -> Result<Self, String> {
        let options = &job.options;
        let prompt = Prompt::new(vocabulary, options, language, &job.prompt, context);
        let length = prompt.tokens.len();
        if length > context {
            return Err(format!(
                "the prompt and the prefix have {length} tokens, and the model's context {context}: give a shorter prefix"
            ));
        }
        let (eot, group) = (vocabulary.eot, options.group());
        let search = match options.beam_size {
            Some(size) => Search::Beam(Beam {
                size,
                eot,
                most_finished: options.candidates(),
                finished: Vec::new(),
            }),
            None => Search::Greedy(Greedy {
                temperature: options.temperature,
                eot,
                seed: options.seed,
                job: job.id,
            }),
        };
        let mut wants = vec![prompt.sot, length - 1];
        wants.dedup();
        Ok(Self {
            job,
            language,
            languages,
            wants,
            rules: rules(vocabulary, options),
            // the first step of a beam has one row
            rows: vec![Row::default(); if options.beam_size.is_some() { 1 } else { group }],
            search,
            live: Vec::new(),
            most: sample_len(options, context),
            context,
            no_speech_prob: f64::NAN,
            prompt,
        })
    }

    /// The hypotheses that live.
    pub(super) fn hypotheses(&self) -> impl Iterator<Item = Hypothesis> {
        self.live.iter().map(|&(_, hypothesis)| hypothesis)
    }

    /// Takes the hypothesis that the prompt is appended to.
    pub(super) fn begin(&mut self, hypothesis: Hypothesis) {
        self.live = vec![(0, hypothesis)];
    }

    /// Whether the prompt has not run.
    fn is_new(&self) -> bool {
        self.no_speech_prob.is_nan()
    }

    /// The tokens of the next pass.
    pub(super) fn appends(&self) -> impl Iterator<Item = Append<'_>> {
        self.live.iter().map(|&(row, hypothesis)| match self.is_new() {
            true => Append { hypothesis, tokens: &self.prompt.tokens, wants: &self.wants },
            false => {
                let tokens = &self.rows[row].tokens;
                Append {
                    hypothesis,
                    tokens: &tokens[tokens.len().saturating_sub(1)..],
                    wants: LAST,
                }
            }
        })
    }

    /// The number of rows that the model runs.
    pub(super) fn running(&self) -> usize {
        self.live.len()
    }

    /// The number of rows of logits of the next pass.
    pub(super) fn wanted(&self) -> usize {
        self.running() * if self.is_new() { self.wants.len() } else { 1 }
    }

    /// Takes the logits `[wanted, vocab]` of the pass. Returns those of the rows that the model
    /// ran, which are to be [filtered](Self::filter).
    pub(super) fn take<'l, C: Control + ?Sized>(
        &mut self,
        vocabulary: &Vocabulary,
        logits: &'l [f32],
        width: usize,
        control: &mut C,
    ) -> Vec<RowLogits<'l>> {
        let mut all = logits.chunks_exact(width.max(1));
        if self.is_new() {
            let first = all.clone().next().unwrap_or_default();
            let own = first.get(vocabulary.no_speech as usize).copied();
            let logprob = LogSumExp::of(first).log_prob(own.unwrap_or(f32::NEG_INFINITY));
            // NaN would stand for a job without a pass
            self.no_speech_prob = logprob.exp().max(0.0);
            if self.wants.len() > 1 {
                all.next();
            }
        }
        let job = self.job.id;
        let of = |(&(row, _), logits): (&(usize, Hypothesis), &'l [f32])| {
            let place = Place { job, sampled: &self.rows[row].tokens };
            RowLogits { row, logits, allowed: control.allowed(place).map(<[u32]>::to_vec) }
        };
        self.live.iter().zip(all).map(of).collect()
    }

    /// Chooses the next tokens of all rows, of those that may follow the rows that the model ran.
    /// Returns how rows continue; `None` if the job is done.
    pub(super) fn choose<C: Control + ?Sized>(
        &mut self,
        next: &[Next],
        control: &mut C,
    ) -> Option<Vec<Source>> {
        // those that are over have none
        let mut of_rows: Vec<Option<&Next>> = vec![None; self.rows.len()];
        for (&(row, _), next) in self.live.iter().zip(next) {
            of_rows[row] = Some(next);
        }
        // the rows of a first step share their logits
        if self.live.len() == 1 && self.rows.iter().all(|row| row.tokens.is_empty()) {
            let first = of_rows[0];
            of_rows.fill(first);
        }
        let (sources, ended) = match &mut self.search {
            Search::Greedy(greedy) => greedy.update(&mut self.rows, &of_rows, control),
            Search::Beam(beam) => beam.update(&mut self.rows, &of_rows),
        };
        let sampled = self.rows.iter().map(|row| row.tokens.len()).max().unwrap_or(0);
        let over = sampled >= self.most || self.prompt.tokens.len() + sampled > self.context;
        (!ended && !over).then_some(sources)
    }

    /// The number of likeliest tokens that the search needs of each row; `None` if it draws.
    fn likeliest(&self) -> Option<usize> {
        match &self.search {
            Search::Greedy(greedy) if greedy.temperature == 0.0 => Some(1),
            Search::Greedy(_) => None,
            Search::Beam(beam) => Some(beam.size + 1),
        }
    }

    /// The number of tokens that are needed of a ranking in place of the logits of the next pass;
    /// `None` if the logits are needed.
    pub(super) fn ranked(&self) -> Option<usize> {
        let penalized = self.job.options.repetition != Repetition::NONE;
        self.likeliest().filter(|_| !self.is_new() && !penalized)
    }

    /// The first timestamp.
    pub(super) fn split(&self) -> u32 {
        self.rules.split()
    }

    /// Appends the masks of the allowed tokens of the rows that the model runs, each of `words`
    /// words.
    pub(super) fn masks<C: Control + ?Sized>(
        &self,
        words: usize,
        control: &mut C,
        masks: &mut Vec<u32>,
    ) {
        for &(row, _) in &self.live {
            let sampled = &*self.rows[row].tokens;
            let allowed = control.allowed(Place { job: self.job.id, sampled });
            let mut mask = self.rules.mask(&self.bans(sampled, allowed.is_some()));
            mask.resize(words, 0);
            if let Some(allowed) = allowed {
                for (i, word) in mask.iter_mut().enumerate() {
                    *word &= allowed.get(i).copied().unwrap_or(0);
                }
            }
            masks.append(&mut mask);
        }
    }

    /// The banned tokens after the sampled ones.
    fn bans(&self, sampled: &[u32], constrained: bool) -> Bans {
        Bans { constrained, ..self.rules.bans(sampled) }
    }

    /// The next tokens of a ranking of a row.
    pub(super) fn next_of(&self, ranked: &Ranked) -> Next {
        let count = self.likeliest().unwrap_or(1);
        let all = ranked.candidates(self.rules.prefers_timestamps(), count);
        let of = |(token, logprob)| Candidate { token, logprob };
        Next::Likeliest(all.into_iter().map(of).collect())
    }

    /// The next tokens of the logits of a row.
    pub(super) fn filter(&self, vocabulary: &Vocabulary, row: &RowLogits<'_>) -> Next {
        let sampled = &*self.rows[row.row].tokens;
        // a failing model's NaN is never chosen
        let mut logits: Vec<f32> =
            row.logits.iter().map(|&x| if x.is_nan() { f32::NEG_INFINITY } else { x }).collect();
        penalize(&self.job.options.repetition, vocabulary.eot, sampled, &mut logits);
        if let Some(allowed) = &row.allowed {
            for (token, logit) in logits.iter_mut().enumerate() {
                let word = allowed.get(token / 32).copied().unwrap_or(0);
                if word >> (token % 32) & 1 == 0 {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        self.rules.apply(&self.bans(sampled, row.allowed.is_some()), &mut logits);
        self.rules.prefer_timestamps(&mut logits);
        match self.likeliest() {
            Some(count) => Next::Likeliest(candidates(&logits, count)),
            None => {
                let sum = LogSumExp::of(&logits);
                Next::All(logits, sum)
            }
        }
    }

    /// The hypotheses that the rows continue, in order of the rows: pairs of row and hypothesis
    /// before. Those that no row continues are left over.
    pub(super) fn rearrange(&mut self, sources: &[Source]) -> Rearranged {
        let shared = match *self.live {
            // rows that were equal so far
            [(_, only)] if self.rows.iter().all(|row| row.tokens.len() == 1) => Some(only),
            _ => None,
        };
        let before = std::mem::take(&mut self.live);
        let of = |row: usize| match shared {
            Some(only) => Some(only),
            None => before.iter().find(|&&(own, _)| own == row).map(|&(_, hypothesis)| hypothesis),
        };
        let mut kept = Vec::new();
        let mut forks = Vec::new();
        for (row, source) in sources.iter().enumerate().filter(|(_, source)| source.live) {
            let Some(hypothesis) = of(source.row) else { continue };
            match kept.iter().any(|&(_, other)| other == hypothesis) {
                true => forks.push((row, hypothesis)),
                false => kept.push((row, hypothesis)),
            }
        }
        let unused = before
            .into_iter()
            .map(|(_, hypothesis)| hypothesis)
            .filter(|hypothesis| kept.iter().all(|(_, other)| other != hypothesis))
            .collect();
        self.live = kept;
        Rearranged { unused, forks }
    }

    /// Takes the fork that a row continues.
    pub(super) fn forked(&mut self, row: usize, hypothesis: Hypothesis) {
        let at = self.live.partition_point(|&(other, _)| other < row);
        self.live.insert(at, (row, hypothesis));
    }

    /// The best row as a result.
    pub(super) fn result(self, vocabulary: &Vocabulary) -> Decoded {
        let eot = vocabulary.eot;
        let mut rows = match self.search {
            Search::Greedy(_) => self.rows,
            Search::Beam(beam) => beam.finish(self.rows),
        };
        let mut ended = Vec::with_capacity(rows.len());
        for row in &mut rows {
            let end = row.tokens.iter().position(|&token| token == eot);
            row.tokens.truncate(end.unwrap_or(row.tokens.len()));
            // an end of probability 0 stands for a row that nothing could continue
            ended.push(end.is_some() && row.sum > f64::NEG_INFINITY);
        }
        let best = best_row::best(&rows, self.job.options.length_penalty);
        let Row { tokens, sum } = rows.into_iter().nth(best).unwrap_or_default();
        let text = vocabulary.decode(&tokens);
        let text = strip(&text).to_owned();
        Decoded {
            language: self.language,
            languages: self.languages,
            // a sum that is no number becomes the least one too
            average_logprob: (sum / (tokens.len() + 1) as f64).max(LOGPROB_LEAST),
            no_speech_prob: self.no_speech_prob,
            temperature: self.job.options.temperature,
            compression_ratio: compression_ratio(&text),
            ended: ended.get(best).copied().unwrap_or(false),
            tokens,
            text,
        }
    }
}

/// How hypotheses change between two passes.
pub(super) struct Rearranged {
    /// Hypotheses to free.
    pub(super) unused: Vec<Hypothesis>,
    /// Rows that continue a fork of a hypothesis.
    pub(super) forks: Vec<(usize, Hypothesis)>,
}

/// The filters of a window.
fn rules(vocabulary: &Vocabulary, options: &DecodeOptions) -> Rules {
    let latest = options.max_initial_timestamp.filter(|&seconds| seconds > 0.0);
    let latest = latest.map(|seconds| (seconds / TIMESTAMP_SECONDS).round_ties_even() as u32);
    Rules::new(
        vocabulary,
        options.suppressed(vocabulary),
        options.suppress_blank,
        !options.without_timestamps,
        latest,
    )
}
