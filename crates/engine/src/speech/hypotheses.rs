//! Hypotheses: tokens over an encoded window, their pages, and the passes that append to them.

use pelton_graph::{Input, PAGE, Pass, Phase, Ranking, Row, TableEdit, Want, pages_for};
use pelton_speech::{Alignment, Append, Filters, Hypothesis, Part, Ranked, Window};

use super::model::SpeechModel;
use super::state::Branch;
use crate::Error;

/// A row of an append.
#[derive(Clone, Copy, Debug)]
struct TokenRow {
    hypothesis: Hypothesis,
    position: usize,
    token: u32,
    /// The index of its logits in the results, if they are wanted.
    result: Option<usize>,
}

impl SpeechModel {
    fn branch(&self, hypothesis: Hypothesis) -> Result<&Branch, Error> {
        let found = self.hypotheses.get(hypothesis.0 as usize).and_then(Option::as_ref);
        found.ok_or_else(|| missing("hypothesis", hypothesis.0))
    }

    pub(super) fn begin_branch(&mut self, window: Window) -> Result<Hypothesis, Error> {
        if self.windows.get(window.0 as usize).and_then(Option::as_ref).is_none() {
            return Err(missing("window", window.0));
        }
        self.add(Branch { window, len: 0, pages: Vec::new(), is_new: true, changed: 0 })
    }

    pub(super) fn fork_branch(&mut self, hypothesis: Hypothesis) -> Result<Hypothesis, Error> {
        let of = self.branch(hypothesis)?.clone();
        let copy = self.add(Branch { is_new: true, changed: 0, ..of })?;
        if let Some(branch) = &self.hypotheses[copy.0 as usize] {
            branch.pages.iter().for_each(|&page| self.token_pages.hold(page));
        }
        Ok(copy)
    }

    fn add(&mut self, branch: Branch) -> Result<Hypothesis, Error> {
        let count = self.hypotheses.len();
        let Some(free) = self.hypotheses.iter().position(Option::is_none) else {
            return Err(Error::RequestOption {
                option: "hypotheses",
                found: format!("{} at the same time", count + 1),
                expected: format!("at most {count}, twice the beams of all windows"),
            });
        };
        if let Some(window) = &mut self.windows[branch.window.0 as usize] {
            window.hypotheses += 1;
        }
        self.hypotheses[free] = Some(branch);
        Ok(Hypothesis(free as u32))
    }

    /// Frees a hypothesis and its pages; one that was freed before is left alone.
    pub(super) fn release(&mut self, hypothesis: Hypothesis) {
        let found = self.hypotheses.get_mut(hypothesis.0 as usize).and_then(Option::take);
        let Some(branch) = found else { return };
        branch.pages.into_iter().for_each(|page| self.token_pages.unhold(page));
        if let Some(window) = &mut self.windows[branch.window.0 as usize] {
            window.hypotheses -= 1;
        }
    }

    /// Appends tokens, and returns the wanted logits `[wants, vocab]`.
    ///
    /// The first tokens of a hypothesis run in the phase of prompts, all later ones in that of
    /// decoding, so that the bits of its logits do not depend on the other hypotheses.
    pub(super) fn append_tokens(&mut self, appends: &[Append<'_>]) -> Result<&[f32], Error> {
        self.append_all(appends, None)?;
        Ok(&self.logits)
    }

    /// Appends a token to each of some hypotheses, and returns the likeliest allowed next ones of
    /// each.
    pub(super) fn append_and_rank(
        &mut self,
        appends: &[Append<'_>],
        filters: &Filters<'_>,
    ) -> Result<Vec<Ranked>, Error> {
        self.append_all(appends, Some(filters))?;
        let (width, split) = (Ranking::width(filters.count), filters.split);
        Ok(self.logits.chunks_exact(width).map(|words| ranked(words, split)).collect())
    }

    /// Appends tokens. The wanted logits, or the rankings of each append, are in `logits` then.
    fn append_all(
        &mut self,
        appends: &[Append<'_>],
        filters: Option<&Filters<'_>>,
    ) -> Result<(), Error> {
        let (mut prompts, mut decoded, mut copies) = (Vec::new(), Vec::new(), Vec::new());
        let mut results = 0;
        for append in appends {
            let first = self.branch(append.hypothesis)?.len;
            self.extend(append.hypothesis, append.tokens.len(), &mut copies)?;
            let rows = if first == 0 { &mut prompts } else { &mut decoded };
            let mut wants = append.wants.iter().peekable();
            for (i, &token) in append.tokens.iter().enumerate() {
                let result = wants.next_if_eq(&&i).map(|_| results);
                results += usize::from(result.is_some());
                let position = first + i;
                rows.push(TokenRow { hypothesis: append.hypothesis, position, token, result });
            }
        }
        if !copies.is_empty() {
            self.executable.copy_pages(self.groups.tokens, &copies)?;
        }
        let width = filters.map_or(self.vocab, |filters| Ranking::width(filters.count));
        self.logits.clear();
        self.logits.resize(results * width, 0.0);
        for (phase, all) in [(Phase::Prompt, &prompts), (Phase::Decode, &decoded)] {
            let mut rest = all.as_slice();
            while !rest.is_empty() {
                let (rows, later) = rest.split_at(self.rows_of_pass(rest));
                self.run_rows(phase, rows, false, filters)?;
                rest = later;
            }
        }
        Ok(())
    }

    /// Rows from the first on that fit in a pass.
    fn rows_of_pass(&self, rows: &[TokenRow]) -> usize {
        let mut wants = 0;
        let fits = |row: &&TokenRow| {
            wants += usize::from(row.result.is_some());
            wants <= self.wants
        };
        rows.iter().take(self.rows).take_while(fits).count()
    }

    /// Makes room for more tokens of a hypothesis, in pages that it alone holds. Adds the `copies`
    /// `[from, to]` of pages that this takes: other hypotheses hold the page that is copied.
    fn extend(
        &mut self,
        hypothesis: Hypothesis,
        count: usize,
        copies: &mut Vec<[u32; 2]>,
    ) -> Result<(), Error> {
        let context = self.context;
        let found = self.hypotheses.get_mut(hypothesis.0 as usize).and_then(Option::as_mut);
        let branch = found.ok_or_else(|| missing("hypothesis", hypothesis.0))?;
        let len = branch.len + count;
        if len > context {
            let what = "the tokens of a hypothesis";
            return Err(Error::TextTooLong { text: 0, tokens: len, limit: context, what });
        }
        let full = |free: usize| Error::CacheFull { needed: len, available: free * PAGE };
        let last = branch.len / PAGE;
        if let Some(page) = branch.pages.get_mut(last)
            && count > 0
            && self.token_pages.is_shared(*page)
        {
            let copy = self.token_pages.alloc().ok_or_else(|| full(self.token_pages.free()))?;
            copies.push([*page, copy]);
            self.token_pages.unhold(*page);
            *page = copy;
            branch.changed = branch.changed.min(last);
        }
        while branch.pages.len() < pages_for(len) {
            let page = self.token_pages.alloc().ok_or_else(|| full(self.token_pages.free()))?;
            branch.changed = branch.changed.min(branch.pages.len());
            branch.pages.push(page);
        }
        branch.len = len;
        Ok(())
    }

    /// Runs rows, whose logits are put at their places. Returns the queries
    /// `[rows, heads, head_dim]` of the heads that follow the audio if it `keeps`
    /// them, or else nothing.
    fn run_rows(
        &mut self,
        phase: Phase,
        rows: &[TokenRow],
        keeps: bool,
        filters: Option<&Filters<'_>>,
    ) -> Result<Vec<f32>, Error> {
        let Self { executable, files, hypotheses, windows, logits, groups, vocab, .. } = self;
        let mut edits = Vec::new();
        for of in rows.chunk_by(|a, b| a.hypothesis == b.hypothesis) {
            let slot = of[0].hypothesis.0;
            let Some(branch) = &hypotheses[slot as usize] else { continue };
            if branch.is_new
                && let Some(window) = &windows[branch.window.0 as usize]
            {
                let (group, pages) = (groups.cross as u32, window.pages.as_slice());
                edits.push(TableEdit { group, slot, first: 0, pages });
            }
            if branch.changed < branch.pages.len() {
                let (group, first) = (groups.tokens as u32, branch.changed as u32);
                edits.push(TableEdit {
                    group,
                    slot,
                    first,
                    pages: &branch.pages[branch.changed..],
                });
            }
        }
        let inputs: Vec<Row> = rows
            .iter()
            .map(|row| Row {
                input: Input::Token(row.token),
                position: row.position as u32,
                slot: row.hypothesis.0,
            })
            .collect();
        let wanted = || (0..).zip(rows).filter_map(|(i, row)| Some((i, row.result?)));
        let wants: Vec<Want<'_>> = wanted().map(|(row, _)| Want::Logits { row }).collect();
        let pass =
            Pass { tables: &edits, keeps_hidden: keeps, ..Pass::new(phase, &inputs, &wants) };
        let (width, ticket) = match filters {
            Some(filters) => {
                let words = vocab.div_ceil(32);
                let of = |result: usize| &filters.masks[result * words..(result + 1) * words];
                let masks: Vec<u32> =
                    wanted().flat_map(|(_, result)| of(result)).copied().collect();
                let Filters { split, count, .. } = *filters;
                let ranking = Ranking { masks: &masks, split, count };
                (Ranking::width(count), executable.submit_ranked(&pass, &ranking)?)
            }
            None => (*vocab, executable.submit(&pass)?),
        };
        let outputs = executable.take(ticket)?;
        files.check()?;
        for ((_, result), from) in wanted().zip(outputs.logits.chunks_exact(width)) {
            logits[result * width..(result + 1) * width].copy_from_slice(from);
        }
        let queries = outputs.hidden.to_vec();
        for of in rows.chunk_by(|a, b| a.hypothesis == b.hypothesis) {
            if let Some(branch) = &mut hypotheses[of[0].hypothesis.0 as usize] {
                branch.is_new = false;
                branch.changed = branch.pages.len();
            }
        }
        Ok(queries)
    }

    /// Runs all tokens of a text, and returns the scores of the heads that follow the audio.
    pub(super) fn align_tokens(
        &mut self,
        window: Window,
        tokens: &[u32],
    ) -> Result<Alignment, Error> {
        if self.alignment_width == 0 {
            return Err(Error::Output {
                file: self.name().to_owned(),
                found: "no times of words, because its file does not name heads that follow the audio",
                expected: "the times of words",
            });
        }
        let hypothesis = self.begin_branch(window)?;
        let outcome = self.align_branch(hypothesis, window, tokens);
        self.release(hypothesis);
        outcome
    }

    fn align_branch(
        &mut self,
        hypothesis: Hypothesis,
        window: Window,
        tokens: &[u32],
    ) -> Result<Alignment, Error> {
        // a new hypothesis shares no page
        self.extend(hypothesis, tokens.len(), &mut Vec::new())?;
        let rows: Vec<TokenRow> = tokens
            .iter()
            .enumerate()
            .map(|(position, &token)| TokenRow {
                hypothesis,
                position,
                token,
                result: Some(position),
            })
            .collect();
        self.logits.clear();
        self.logits.resize(tokens.len() * self.vocab, 0.0);
        let mut queries = Vec::with_capacity(tokens.len() * self.alignment_width);
        for rows in rows.chunks(self.wants.min(self.rows)) {
            queries.extend(self.run_rows(Phase::Prompt, rows, true, None)?);
        }
        let encoded = self.windows.get(window.0 as usize).and_then(Option::as_ref);
        let keys = &encoded.ok_or_else(|| missing("window", window.0))?.keys;
        let (width, dim) = (self.alignment_width, self.head_dim);
        let heads = width / dim;
        let scale = (1.0 / (dim as f64).sqrt()) as f32;
        let mut scores = Vec::with_capacity(heads * tokens.len() * self.positions);
        for head in 0..heads {
            for query in queries.chunks_exact(width) {
                let query = &query[head * dim..(head + 1) * dim];
                let products = keys
                    .chunks_exact(width)
                    .map(|key| scale * dot(query, &key[head * dim..(head + 1) * dim]));
                scores.extend(products);
            }
        }
        Ok(Alignment {
            heads,
            tokens: tokens.len(),
            positions: self.positions,
            scores,
            logits: std::mem::take(&mut self.logits),
        })
    }
}

/// A row's results of a ranking.
fn ranked(words: &[f32], split: u32) -> Ranked {
    let part = |words: &[f32]| {
        let (state, pairs) = words.split_at(2);
        let (pairs, _) = pairs.as_chunks::<2>();
        let found = pairs.iter().filter(|[_, token]| *token >= 0.0);
        let greatest = if state[1] > 0.0 { state[0] } else { f32::NEG_INFINITY };
        let likeliest = found.map(|&[logit, token]| (token as u32, logit)).collect();
        Part { greatest, sum: state[1].into(), likeliest }
    };
    let (others, timestamps) = words.split_at(words.len() / 2);
    debug_assert!(part(timestamps).likeliest.iter().all(|(token, _)| *token >= split));
    Ranked { others: part(others), timestamps: part(timestamps) }
}

/// The product of two rows, in sums of eight lanes, which compilers put in registers.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 8;
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

fn missing(what: &'static str, index: u32) -> Error {
    Error::RequestOption {
        option: what,
        found: index.to_string(),
        expected: "one that lives".to_owned(),
    }
}
