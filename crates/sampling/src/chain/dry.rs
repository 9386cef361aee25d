//! DRY ("don't repeat yourself"): a penalty for tokens that would continue a repetition.

use std::collections::HashMap;

use super::candidates::Candidates;

/// The most tokens of a breaker.
pub const BREAKER_LEN_MAX: usize = 40;

/// Options of DRY. A token that would continue an earlier occurrence of the newest `n ≥
/// allowed_len` tokens loses `multiplier · base^(n − allowed_len)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dry {
    /// The penalty of the shortest repetition; 0 switches DRY off.
    pub multiplier: f64,
    /// The growth of the penalty with each token; below 1 switches DRY off.
    pub base: f64,
    /// The length of the shortest repetition that is penalized.
    pub allowed_len: usize,
    /// The newest tokens that are searched, prompt included; 0 switches DRY off.
    pub window: usize,
    /// Sequences of tokens that no repetition crosses. A [`Chain`](super::Chain) sorts them.
    pub breakers: Vec<Vec<u32>>,
}

impl Dry {
    /// Checks that every value is in its range.
    pub(super) fn check(&self) -> Result<(), String> {
        for (name, value) in [("dry_multiplier", self.multiplier), ("dry_base", self.base)] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(format!("{name} is {value}, expected a finite number from 0"));
            }
        }
        match self.breakers.iter().map(Vec::len).find(|len| !(1..=BREAKER_LEN_MAX).contains(len)) {
            None => Ok(()),
            Some(len) => {
                Err(format!("a breaker of dry has {len} tokens, expected 1 to {BREAKER_LEN_MAX}"))
            }
        }
    }

    fn is_off(&self) -> bool {
        self.multiplier == 0.0 || self.base < 1.0 || self.window == 0
    }

    /// The breakers that begin with a token.
    fn with_head(&self, token: u32) -> &[Vec<u32>] {
        let first = self.breakers.partition_point(|breaker| breaker[..] < [token][..]);
        let all = &self.breakers[first..];
        &all[..all.partition_point(|breaker| breaker.first() == Some(&token))]
    }

    /// The number of newest tokens after the latest breaker; all if there is none.
    fn after_breaker(&self, recent: &[u32]) -> usize {
        let start = |i: usize| {
            let ends = |breaker: &&Vec<u32>| recent[i..].starts_with(breaker);
            self.with_head(recent[i]).iter().filter(ends).map(|breaker| i + breaker.len()).max()
        };
        (0..recent.len()).rev().find_map(start).map_or(recent.len(), |end| recent.len() - end)
    }
}

/// Memory that is used again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The lengths of matches `[recent]`, see [`suffix_matches`].
    matches: Vec<usize>,
    /// The longest match that each token would continue.
    longest: HashMap<u32, usize>,
}

impl Scratch {
    pub(super) fn apply(&mut self, dry: &Dry, candidates: &mut Candidates, history: &[u32]) {
        let recent = &history[history.len().saturating_sub(dry.window)..];
        if dry.is_off() || recent.len() <= dry.allowed_len {
            return;
        }
        let limit = dry.after_breaker(recent);
        if limit < dry.allowed_len {
            return;
        }
        suffix_matches(recent, &mut self.matches);
        self.longest.clear();
        // the token after position i would continue the match that ends there
        for (i, &len) in self.matches.iter().enumerate().take(recent.len() - 1) {
            let len = len.min(limit);
            if len >= dry.allowed_len {
                let longest = self.longest.entry(recent[i + 1]).or_default();
                *longest = len.max(*longest);
            }
        }
        // an exponent at which the penalty stays finite in f32
        let most = match dry.base > 1.000_001 {
            true => (f64::from(f32::MAX).ln() / dry.base.ln()) as usize,
            false => usize::MAX,
        };
        for c in candidates.change() {
            if let Some(&len) = self.longest.get(&c.id)
                && dry.with_head(c.id).first().is_none_or(|breaker| breaker.len() > 1)
            {
                let exponent = (len - dry.allowed_len).min(most) as f64;
                c.logit -= dry.multiplier * dry.base.powf(exponent);
            }
        }
    }
}

/// For each position the length of the longest sequence that ends there and also ends the whole:
/// the Z-array of the reversed sequence, in linear time (Gusfield, 1997).
fn suffix_matches(recent: &[u32], matches: &mut Vec<usize>) {
    let len = recent.len();
    let newest = |i: usize| recent[len - 1 - i];
    matches.clear();
    matches.resize(len, 0);
    // the interval of the match that reaches furthest, counted from the newest token
    let (mut first, mut end) = (0, 0);
    for i in 1..len {
        let mut n = match i < end {
            true => matches[len - 1 - (i - first)].min(end - i),
            false => 0,
        };
        while i + n < len && newest(n) == newest(i + n) {
            n += 1;
        }
        if i + n > end {
            (first, end) = (i, i + n);
        }
        matches[len - 1 - i] = n;
    }
}
