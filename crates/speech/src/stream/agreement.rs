//! The longest common prefix of two transcripts in succession.

use crate::segment::Word;

/// Seconds before the end of the last committed word from which words count as new.
const OVERLAP: f64 = 0.1;
/// A repetition at the seam is looked for if the first new word is within as many seconds of it.
const SEAM: f64 = 1.0;
/// Greatest length in seconds of a word that is trusted. A model that skips speech gives its time
/// to the word before, and the next transcripts may skip the same.
const WORD: f64 = 1.5;
/// Most words of a repetition at the seam.
const REPEATED: usize = 5;

/// Committed words, and those of the last transcript that are not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agreement {
    /// Committed words of the audio that is still in the buffer.
    committed: Vec<Word>,
    /// The end of the last committed word in seconds.
    until: f64,
    /// The words of the last transcript after the committed ones.
    tentative: Vec<Word>,
}

impl Agreement {
    /// Nothing committed.
    pub fn new() -> Self {
        Self::default()
    }

    /// The words of the last transcript after the committed ones.
    pub fn tentative(&self) -> &[Word] {
        &self.tentative
    }

    /// The end of the last committed word in seconds; 0 at first.
    pub fn until(&self) -> f64 {
        self.until
    }

    /// Takes the words of a new transcript of the buffer. Returns those that are committed now: the
    /// first ones of which two transcripts have the same text, up to a word that is too long.
    pub fn insert(&mut self, words: Vec<Word>) -> Vec<Word> {
        let from = self.until - OVERLAP;
        let mut new: Vec<Word> = words.into_iter().filter(|word| word.start > from).collect();
        let repeated = self.repeated(&new);
        new.drain(..repeated);
        let agree = |(a, b): &(&Word, &Word)| a.text == b.text && a.end - a.start < WORD;
        let agreed = new.iter().zip(&self.tentative).take_while(agree).count();
        self.tentative = new.split_off(agreed);
        self.commit(&new);
        new
    }

    /// Commits the tentative words that end by `time`. Returns them.
    pub fn commit_until(&mut self, time: f64) -> Vec<Word> {
        let count = self.tentative.iter().take_while(|word| word.end <= time).count();
        let words: Vec<Word> = self.tentative.drain(..count).collect();
        self.commit(&words);
        words
    }

    /// Forgets the committed words that end by `time`, which the buffer no longer has. Returns
    /// their text.
    pub fn forget(&mut self, time: f64) -> String {
        let count = self.committed.iter().take_while(|word| word.end <= time).count();
        self.committed.drain(..count).map(|word| word.text).collect()
    }

    fn commit(&mut self, words: &[Word]) {
        if let Some(last) = words.last() {
            self.until = last.end;
        }
        self.committed.extend_from_slice(words);
    }

    /// The number of first words that repeat the last committed ones.
    fn repeated(&self, new: &[Word]) -> usize {
        let near = new.first().is_some_and(|first| (first.start - self.until).abs() < SEAM);
        let most = if near { REPEATED.min(new.len()).min(self.committed.len()) } else { 0 };
        let same = |count: &usize| {
            let last = &self.committed[self.committed.len() - count..];
            last.iter().zip(new).all(|(a, b)| a.text == b.text)
        };
        (1..=most).find(same).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of half a second each from `start` on.
    fn words(start: f64, text: &str) -> Vec<Word> {
        let word = |(i, text): (usize, &str)| Word {
            text: text.to_owned(),
            start: start + i as f64 * 0.5,
            end: start + i as f64 * 0.5 + 0.5,
            probability: 1.0,
        };
        text.split(' ').enumerate().map(word).collect()
    }

    fn texts(words: &[Word]) -> String {
        words.iter().map(|word| &*word.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn two_transcripts_must_agree() {
        let mut agreement = Agreement::new();
        assert_eq!(agreement.insert(words(0.0, "and so my")), []);
        assert_eq!(texts(agreement.tentative()), "and so my");
        let committed = agreement.insert(words(0.0, "and so by fellow"));
        assert_eq!(texts(&committed), "and so");
        assert_eq!(agreement.until(), 1.0);
        assert_eq!(texts(agreement.tentative()), "by fellow");
        let committed = agreement.insert(words(0.0, "and so my fellow"));
        assert_eq!(texts(&committed), "");
        let committed = agreement.insert(words(0.0, "and so my fellow americans"));
        assert_eq!(texts(&committed), "my fellow");
    }

    #[test]
    fn a_repetition_at_the_seam_is_dropped() {
        let mut agreement = Agreement::new();
        agreement.insert(words(0.0, "ask what you"));
        agreement.insert(words(0.0, "ask what you can"));
        // the cut buffer repeats two committed words, at later times
        assert_eq!(texts(&agreement.insert(words(1.45, "what you can do"))), "can");
        assert_eq!(texts(agreement.tentative()), "do");
    }

    /// Whisper tiny.en skipped a sentence three times, and gave its 2.5 seconds to the word before.
    #[test]
    fn speech_that_is_skipped_is_waited_for() {
        let long = |text: &str| Word { end: 21.0, ..words(18.5, text).remove(0) };
        let skipped = || [vec![long("this")], words(21.0, "a song")].concat();
        let mut agreement = Agreement::new();
        agreement.insert(skipped());
        assert_eq!(agreement.insert(skipped()), []);
        let whole = || words(18.5, "this key was hidden the children sang a song");
        assert_eq!(texts(&agreement.insert(whole())), "this");
        assert_eq!(texts(&agreement.insert(whole())), texts(&whole()[1..]));
    }

    #[test]
    fn words_are_forgotten_with_their_audio() {
        let mut agreement = Agreement::new();
        agreement.insert(words(0.0, " a b c"));
        agreement.insert(words(0.0, " a b c"));
        assert_eq!(agreement.forget(1.0), "a");
        assert_eq!(agreement.forget(9.0), "bc");
        assert_eq!(agreement.forget(9.0), "");
    }

    #[test]
    fn a_full_buffer_commits_without_agreement() {
        let mut agreement = Agreement::new();
        agreement.insert(words(0.0, "a b c"));
        assert_eq!(texts(&agreement.commit_until(1.0)), "a b");
        assert_eq!(texts(agreement.tentative()), "c");
        assert_eq!(agreement.until(), 1.0);
    }
}
