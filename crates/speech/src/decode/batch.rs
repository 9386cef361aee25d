//! Many jobs in one batch of hypotheses.

use std::collections::VecDeque;
use std::iter::repeat_n;

use crate::error::Error;
use crate::language::Language;
use crate::recognizer::{Append, Filters, Hypothesis, Recognizer};
use crate::vocabulary::Vocabulary;

use super::control::Control;
use super::job::{Decoded, Job};
use super::language::{LanguageProbability, detect_languages, likeliest};
use super::parallel;
use super::row::Next;
use super::task::State;

/// The language of a job, with the probabilities of all if it was detected.
type Known = (Language, Vec<LanguageProbability>);

/// Decodes jobs; the results are in their order. Jobs begin as soon as the recognizer has
/// hypotheses for them, and all hypotheses are freed before this returns.
///
/// # Errors
///
/// An option is out of its range, the recognizer failed, or the control cancelled.
pub fn decode<R: Recognizer + ?Sized, C: Control + ?Sized>(
    recognizer: &mut R,
    vocabulary: &Vocabulary,
    jobs: &[Job],
    control: &mut C,
) -> Result<Vec<Decoded>, Error<R::Error>> {
    let room = recognizer.sizes().hypotheses;
    let vocab = recognizer.sizes().vocab;
    for Job { options, prompt, .. } in jobs {
        options.check().map_err(Error::Options)?;
        let mut given = options.prefix.iter().chain(&options.hot_words).chain(prompt);
        if let Some(token) = given.find(|&&token| token as usize >= vocab) {
            let text = format!("the prompt has the token {token}, and the vocabulary {vocab}");
            return Err(Error::Options(text));
        }
        if options.group() > room {
            let group = options.group();
            let text = format!("{group} beams or samples: the model was loaded for at most {room}");
            return Err(Error::Options(text));
        }
        if let (Some(language), true) = (options.language, vocabulary.is_multilingual())
            && vocabulary.language_token(language).is_none()
        {
            let text = format!("the model does not know the language {language}");
            return Err(Error::Options(text));
        }
    }
    let languages = languages(recognizer, vocabulary, jobs)?;
    let mut batch = Batch { active: Vec::new(), results: vec![None; jobs.len()] };
    let result = batch.run(recognizer, vocabulary, jobs, languages, control);
    let live = batch.active.iter().flat_map(|(_, state)| state.hypotheses());
    live.for_each(|hypothesis| recognizer.free(hypothesis));
    result?;
    Ok(batch.results.into_iter().flatten().collect())
}

/// The languages of jobs, detected where they are not given.
fn languages<R: Recognizer + ?Sized>(
    recognizer: &mut R,
    vocabulary: &Vocabulary,
    jobs: &[Job],
) -> Result<Vec<Known>, Error<R::Error>> {
    let unknown = |job: &&Job| job.options.language.is_none() && vocabulary.is_multilingual();
    let windows: Vec<_> = jobs.iter().filter(unknown).map(|job| job.window).collect();
    let mut detected = match windows.is_empty() {
        true => Vec::new(),
        false => detect_languages(recognizer, vocabulary, &windows)?,
    }
    .into_iter();
    let of = |job: &Job| match unknown(&job) {
        true => {
            let all = detected.next().unwrap_or_default();
            (likeliest(&all).unwrap_or(Language::ENGLISH), all)
        }
        false => (job.options.language.unwrap_or(Language::ENGLISH), Vec::new()),
    };
    Ok(jobs.iter().map(of).collect())
}

/// Jobs in progress, by their indices, and results.
struct Batch<'a> {
    active: Vec<(usize, State<'a>)>,
    results: Vec<Option<Decoded>>,
}

impl<'a> Batch<'a> {
    fn run<R: Recognizer + ?Sized, C: Control + ?Sized>(
        &mut self,
        recognizer: &mut R,
        vocabulary: &Vocabulary,
        jobs: &'a [Job],
        languages: Vec<Known>,
        control: &mut C,
    ) -> Result<(), Error<R::Error>> {
        let sizes = recognizer.sizes();
        let mut waiting: VecDeque<_> = jobs.iter().zip(languages).enumerate().collect();
        loop {
            if control.step().is_break() {
                return Err(Error::Cancelled);
            }
            let used: usize = self.active.iter().map(|(_, state)| state.job.options.group()).sum();
            let mut room = sizes.hypotheses.saturating_sub(used);
            while let Some((_, (job, _))) = waiting.front()
                && job.options.group() <= room
                && let Some((index, (job, (language, all)))) = waiting.pop_front()
            {
                room -= job.options.group();
                let mut state = State::new(vocabulary, job, language, all, sizes.context)
                    .map_err(Error::Options)?;
                state.begin(recognizer.begin(job.window).map_err(Error::Model)?);
                self.active.push((index, state));
            }
            if self.active.is_empty() {
                return Ok(());
            }
            self.pass(recognizer, vocabulary, control)?;
        }
    }

    /// Tokens that are needed of a ranking in place of the logits of the next pass; `None` if a job
    /// needs its logits.
    fn ranked(&self) -> Option<usize> {
        self.active
            .iter()
            .map(|(_, state)| state.ranked())
            .try_fold(1, |most, count| Some(count?.max(most)))
    }

    /// One pass of the recognizer over all active jobs.
    fn pass<R: Recognizer + ?Sized, C: Control + ?Sized>(
        &mut self,
        recognizer: &mut R,
        vocabulary: &Vocabulary,
        control: &mut C,
    ) -> Result<(), Error<R::Error>> {
        let width = recognizer.sizes().vocab;
        let wanted: Vec<usize> = self.active.iter().map(|(_, state)| state.wanted()).collect();
        let appends: Vec<Append<'_>> =
            self.active.iter().flat_map(|(_, state)| state.appends()).collect();
        let next: Vec<Next> = match self.ranked().filter(|&count| count <= recognizer.ranks()) {
            Some(count) => {
                let mut masks = Vec::new();
                for (_, state) in &self.active {
                    state.masks(width.div_ceil(32), control, &mut masks);
                }
                let split = self.active.first().map_or(0, |(_, state)| state.split());
                let filters = Filters { masks: &masks, split, count };
                let ranked = recognizer.append_ranked(&appends, &filters).map_err(Error::Model)?;
                let of_rows =
                    self.active.iter().flat_map(|(_, state)| repeat_n(state, state.running()));
                of_rows.zip(&ranked).map(|(state, ranked)| state.next_of(ranked)).collect()
            }
            None => {
                let mut rest = recognizer.append(&appends).map_err(Error::Model)?;
                drop(appends);
                let mut rows = Vec::new();
                for (i, ((_, state), wanted)) in self.active.iter_mut().zip(wanted).enumerate() {
                    let (own, after) = rest.split_at((wanted * width).min(rest.len()));
                    rest = after;
                    let own = state.take(vocabulary, own, width, control);
                    rows.extend(own.into_iter().map(|row| (i, row)));
                }
                let active = &self.active;
                parallel::map(&rows, width, |(i, row)| active[*i].1.filter(vocabulary, row))
            }
        };
        let mut rest = &*next;
        let mut continued = Vec::with_capacity(self.active.len());
        for (_, state) in &mut self.active {
            let (own, after) = rest.split_at(state.running().min(rest.len()));
            rest = after;
            continued.push(state.choose(own, control));
        }
        // frees come before forks, so that no job has more hypotheses than its group
        let mut forks: Vec<(usize, usize, Hypothesis)> = Vec::new();
        let mut active = Vec::with_capacity(self.active.len());
        for ((index, mut state), sources) in self.active.drain(..).zip(continued) {
            let Some(sources) = sources else {
                state.hypotheses().for_each(|hypothesis| recognizer.free(hypothesis));
                self.results[index] = Some(state.result(vocabulary));
                continue;
            };
            let moved = state.rearrange(&sources);
            moved.unused.into_iter().for_each(|hypothesis| recognizer.free(hypothesis));
            let at = active.len();
            forks.extend(moved.forks.into_iter().map(|(row, hypothesis)| (at, row, hypothesis)));
            active.push((index, state));
        }
        self.active = active;
        for (at, row, hypothesis) in forks {
            let fork = recognizer.fork(hypothesis).map_err(Error::Model)?;
            self.active[at].1.forked(row, fork);
        }
        Ok(())
    }
}
