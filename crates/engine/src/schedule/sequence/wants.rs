//! The rows of a sequence in a pass, and what the pass computes of them.

use pelton_graph::{Effort, Input, PAGE, RECENT, Row, Sample, Want};

use super::{Running, Sequence};
use crate::schedule::{goal::Goal, values::WantedRows};

impl Sequence {
    /// How much the row at a position multiplies.
    pub(crate) fn effort_at(&self, position: usize) -> Effort {
        match position < self.prompt && !self.terms.effort_in_prompt {
            true => Effort::FULL,
            false => self.terms.effort,
        }
    }

    /// Whether the last of the rows before `end` samples a token.
    pub(crate) fn samples_at(&self, end: usize) -> bool {
        matches!(self.goal, Goal::Text { .. })
            && self.running().is_none_or(|running| end >= running.target())
            && end >= self.tokens.len()
    }

    /// The scores of the prompt that a pass computes of the rows `first..end`. Row `first` is
    /// row `row` of the pass.
    pub(crate) fn score_wants(
        &self,
        first: usize,
        end: usize,
        row: usize,
    ) -> impl Iterator<Item = Want<'_>> {
        let scores = self.scores.iter().flat_map(move |scores| {
            scores.rows(first, end).map(move |position| (scores, position))
        });
        scores.map(move |(scores, position)| {
            Want::Sample(scores.sample(row + position - first, position))
        })
    }

    /// The number of rows `first..end` whose values are wanted.
    pub(crate) fn value_wants(&self, first: usize, end: usize) -> usize {
        match &self.goal {
            Goal::Text { .. } => 0,
            Goal::Values(values) => values.wanted.of(first, end, self.prompt).len(),
        }
    }

    /// The position up to which the rows from `first` on can be in a pass with `wants` wants.
    pub(crate) fn wanted_end(&self, first: usize, wants: usize) -> usize {
        let most = wants.min(RECENT);
        match (&self.scores, &self.goal) {
            (Some(scores), _) => (first.max(scores.next_row()) + most) / PAGE * PAGE,
            (None, Goal::Values(values)) if values.wanted == WantedRows::All => {
                (first + wants) / PAGE * PAGE
            }
            (None, _) => usize::MAX,
        }
    }

    /// The results that a pass computes of the rows `first..end`, without the scores of the prompt.
    /// Row `first` is row `row` of the pass. The last `drafts` rows are drafted tokens: each of
    /// them, and the row before them, samples a token.
    pub(crate) fn wants(
        &self,
        first: usize,
        end: usize,
        row: usize,
        drafts: usize,
    ) -> Vec<Want<'_>> {
        match &self.goal {
            Goal::Text { draw, .. } if self.samples_at(end) && draw.host.is_some() => {
                vec![Want::Logits { row: (row + end - 1 - first) as u32 }]
            }
            Goal::Text { draw, .. }
                if self.samples_at(end) && draw.is_stepwise() && self.in_flight().tokens > 0 =>
            {
                vec![Want::Later { row: (row + end - 1 - first) as u32 }]
            }
            Goal::Text { draw, .. } if self.samples_at(end) => (end - 1 - drafts..end)
                .map(|position| {
                    let row = row + position - first;
                    Want::Sample(draw.sample(row, position, self.prompt, &self.tokens))
                })
                .collect(),
            Goal::Text { .. } => Vec::new(),
            Goal::Values(values) => {
                let wanted = values.wanted.of(first, end, self.prompt);
                let rows = wanted.map(|position| (row + position - first) as u32);
                rows.map(|row| Want::Logits { row }).collect()
            }
        }
    }

    /// The draw of a pass that was submitted without it, whose row is at `position`. `None` unless
    /// the token at `position` is the newest known one.
    pub(crate) fn late_sample(&self, position: usize) -> Option<Sample<'_>> {
        match &self.goal {
            Goal::Text { draw, .. } if self.tokens.len() == position + 1 => {
                Some(draw.sample(0, position, self.prompt, &self.tokens))
            }
            _ => None,
        }
    }

    /// The row at a position.
    pub(crate) fn row(&self, position: usize) -> Row {
        let input = self.tokens.get(position).map_or(Input::Sampled, |&token| Input::Token(token));
        Row { input, position: position as u32, slot: self.running().map_or(0, Running::slot) }
    }
}
