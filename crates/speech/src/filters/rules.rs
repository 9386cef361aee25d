//! OpenAI's three filters: no blank start, suppressed tokens, and the order of timestamps.

use std::ops::Range;

use crate::softmax::{LogSumExp, greatest};
use crate::vocabulary::Vocabulary;

/// Bits of a word of a mask.
const BITS: u32 = u32::BITS;

/// The rules of the tokens of one window.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Tokens that no text begins with.
    blank: Vec<u32>,
    /// Tokens that never occur.
    suppressed: Vec<u32>,
    /// Tokens that occur only where a constraint allows them.
    yielding: Vec<u32>,
    /// The first id of special tokens, the first timestamp, and the end of the vocabulary.
    eot: u32,
    first_timestamp: u32,
    end: u32,
    no_timestamps: u32,
    timestamps: bool,
    /// The greatest first timestamp.
    latest_start: Option<u32>,
}

/// Banned ids of one row, besides those of [`Rules`] that are constant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bans {
    /// Whether it is the first sampled token, which cannot be blank.
    pub first: bool,
    /// Whether a constraint chooses the texts. It wins over the bans of blank starts and of
    /// annotations.
    pub constrained: bool,
    /// Banned ranges of ids, which may overlap.
    pub ranges: Vec<Range<u32>>,
}

impl Rules {
    /// The rules of a vocabulary. `latest_start` is the index of the greatest first timestamp.
    pub fn new(
        vocabulary: &Vocabulary,
        suppressed: Vec<u32>,
        suppress_blank: bool,
        timestamps: bool,
        latest_start: Option<u32>,
    ) -> Self {
        let blank = match suppress_blank {
            true => vocabulary.blank().iter().copied().chain([vocabulary.eot]).collect(),
            false => Vec::new(),
        };
        let annotates = |token: &u32| vocabulary.non_speech().binary_search(token).is_ok();
        let (yielding, suppressed) = suppressed.into_iter().partition(annotates);
        Self {
            blank,
            suppressed,
            yielding,
            eot: vocabulary.eot,
            first_timestamp: vocabulary.first_timestamp,
            end: vocabulary.first_timestamp + vocabulary.timestamps,
            no_timestamps: vocabulary.no_timestamps,
            timestamps,
            latest_start: latest_start
                .map(|index| vocabulary.first_timestamp.saturating_add(index)),
        }
    }

    /// The bans after the sampled tokens, which do not contain the prompt and the prefix.
    pub fn bans(&self, sampled: &[u32]) -> Bans {
        let mut bans = Bans { first: sampled.is_empty(), ..Bans::default() };
        if !self.timestamps {
            return bans;
        }
        let is_timestamp = |token: &u32| *token >= self.first_timestamp;
        let mut ban = |range: Range<u32>| bans.ranges.push(range);
        let mut newest = sampled.iter().rev();
        let after_timestamp = newest.next().is_some_and(is_timestamp);
        // a text's end is followed by a start or by the end; a start by text
        let after_pair = newest.next().is_none_or(is_timestamp);
        if after_timestamp && after_pair {
            ban(self.first_timestamp..self.end);
        } else if after_timestamp {
            ban(0..self.eot);
        }
        if let Some(&last) = sampled.iter().rev().find(|token| is_timestamp(token)) {
            // times do not decrease, and a segment is longer than 0
            let same_allowed = after_timestamp && !after_pair;
            ban(self.first_timestamp..last.saturating_add(u32::from(!same_allowed)));
        }
        if sampled.is_empty() {
            ban(0..self.first_timestamp);
            if let Some(latest) = self.latest_start {
                ban(latest.saturating_add(1)..self.end);
            }
        }
        bans
    }

    /// Sets the logits `[vocab]` of banned tokens to -∞.
    pub fn apply(&self, bans: &Bans, logits: &mut [f32]) {
        self.each(bans, |range| {
            let end = logits.len();
            logits[(range.start as usize).min(end)..(range.end as usize).min(end)]
                .fill(f32::NEG_INFINITY);
        });
        if let Some(beyond) = logits.get_mut(self.end as usize..) {
            beyond.fill(f32::NEG_INFINITY);
        }
    }

    /// The allowed tokens as a bit set `[⌈vocab / 32⌉]`: token `t` is bit `t % 32` of word
    /// `t / 32`.
    pub fn mask(&self, bans: &Bans) -> Vec<u32> {
        let mut mask = vec![u32::MAX; self.end.div_ceil(BITS) as usize];
        if let (Some(last), over @ 1..) = (mask.last_mut(), self.end % BITS) {
            *last = (1 << over) - 1;
        }
        self.each(bans, |range| {
            clear(&mut mask, range.start.min(self.end)..range.end.min(self.end));
        });
        mask
    }

    /// The first timestamp.
    pub(crate) fn split(&self) -> u32 {
        self.first_timestamp
    }

    /// Whether timestamps are preferred that are likelier together than any other token.
    pub(crate) fn prefers_timestamps(&self) -> bool {
        self.timestamps
    }

    /// Bans all but timestamps if these are likelier together than any other token.
    pub fn prefer_timestamps(&self, logits: &mut [f32]) {
        let split = (self.first_timestamp as usize).min(logits.len());
        let (others, timestamps) = logits.split_at_mut(split);
        if self.timestamps && timestamps_win(others, timestamps) {
            others.fill(f32::NEG_INFINITY);
        }
    }

    /// Calls `ban` with every banned range, empty or inverted ones left out.
    fn each(&self, bans: &Bans, mut ban: impl FnMut(Range<u32>)) {
        let (blank, yielding): (&[u32], &[u32]) = match (bans.constrained, bans.first) {
            (true, _) => (&[], &[]),
            (false, true) => (&self.blank, &self.yielding),
            (false, false) => (&[], &self.yielding),
        };
        let single = blank.iter().chain(yielding).chain(&self.suppressed).copied();
        let marker = self.timestamps.then_some(self.no_timestamps);
        let single = single.chain(marker).map(|token| token..token.saturating_add(1));
        single
            .chain(bans.ranges.iter().cloned())
            .filter(|range| !range.is_empty())
            .for_each(&mut ban);
    }
}

/// Clears a range of bits.
fn clear(mask: &mut [u32], range: Range<u32>) {
    let Range { start, end } = range;
    if start >= end {
        return;
    }
    // the bits below a place of its word
    let below = |at: u32| (1u32 << (at % BITS)) - 1;
    let (first, last) = ((start / BITS) as usize, (end / BITS) as usize);
    if first == last {
        mask[first] &= below(start) | !below(end);
        return;
    }
    mask[first] &= below(start);
    mask[first + 1..last].fill(0);
    if let Some(word) = mask.get_mut(last) {
        *word &= !below(end);
    }
}

/// Whether the sum of the probabilities of `timestamps` exceeds the greatest of `others`, both
/// logits of one row.
pub fn timestamps_win(others: &[f32], timestamps: &[f32]) -> bool {
    let sum = LogSumExp::of(timestamps);
    let reach = f64::from(greatest(others)) - f64::from(sum.greatest);
    sum.greatest > f32::NEG_INFINITY && sum.rest > reach
}
