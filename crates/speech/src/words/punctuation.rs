//! Punctuation becomes part of the word that it belongs to.

use crate::text::strip;

use super::timing::Timing;

/// Merges words of the marks `before` with the next word, and words of the marks `after` with the
/// word before. A word is such a mark if it is a part of the text of marks.
pub(super) fn merge(words: &mut [Timing], before: &str, after: &str) {
    let mut into = words.len().saturating_sub(1);
    for i in (0..words.len().saturating_sub(1)).rev() {
        let word = &words[i];
        if word.text.starts_with(' ') && before.contains(strip(&word.text)) {
            let (text, tokens) = (std::mem::take(&mut words[i].text), words[i].tokens);
            words[i].tokens = 0;
            words[into].text.insert_str(0, &text);
            words[into].tokens += tokens;
        } else {
            into = i;
        }
    }
    let mut into = 0;
    for i in 1..words.len() {
        if !words[into].text.ends_with(' ') && after.contains(&*words[i].text) {
            let (text, tokens) = (std::mem::take(&mut words[i].text), words[i].tokens);
            words[i].tokens = 0;
            words[into].text.push_str(&text);
            words[into].tokens += tokens;
        } else {
            into = i;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of OpenAI's `merge_punctuations` for the same words and its default marks.
    #[test]
    fn marks_on_both_sides() {
        let words = [" he", " said", " \"", "yes", "!", "\"", " (", " “", "a", ")", " -", " b"];
        let mut words = words.map(|text| Timing {
            text: text.to_owned(),
            tokens: 1,
            start: 0.0,
            end: 0.0,
            probability: 1.0,
        });
        merge(&mut words, "\"'“¿([{-", "\"'.。,，!！?？:：”)]}、");
        let found = words.map(|word| (word.text, word.tokens));
        let left: Vec<_> = found.iter().filter(|(text, _)| !text.is_empty()).collect();
        let expected = [(" he", 1), (" said", 1), (" \"yes!\"", 4), (" ( “a)", 4), (" - b", 2)];
        assert_eq!(
            left,
            expected.map(|(text, tokens)| (text.to_owned(), tokens)).iter().collect::<Vec<_>>()
        );
    }
}
