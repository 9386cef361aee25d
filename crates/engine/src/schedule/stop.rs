//! Ending a text at any of some strings, without giving out the beginning of one.

/// The knowledge of a text after some more of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Text that cannot be part of a stop string.
    pub(crate) text: String,
    /// Whether a stop string came; the text ends before it.
    pub(crate) stopped: bool,
}

/// Holds back the end of a text for as long as it may be the beginning of a stop string.
#[derive(Debug)]
pub(crate) struct StopMatcher {
    stops: Vec<String>,
    held: String,
}

impl StopMatcher {
    /// Empty strings stop nothing.
    pub(crate) fn new(mut stops: Vec<String>) -> Self {
        stops.retain(|stop| !stop.is_empty());
        Self { stops, held: String::new() }
    }

    /// Takes the next piece of the text.
    pub(crate) fn push(&mut self, piece: &str) -> Checked {
        self.held.push_str(piece);
        // the earliest end decides, then the earliest beginning: as if it had come by characters
        let found = self
            .stops
            .iter()
            .filter_map(|stop| self.held.find(stop).map(|at| (at + stop.len(), at)))
            .min();
        if let Some((_, at)) = found {
            self.held.truncate(at);
            return Checked { text: std::mem::take(&mut self.held), stopped: true };
        }
        let from = self.first_possible();
        let text = self.held[..from].to_owned();
        self.held.drain(..from);
        Checked { text, stopped: false }
    }

    /// The text that is still held back, when no more comes.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Where the first suffix begins that some stop string begins with.
    fn first_possible(&self) -> usize {
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let mut from = self.held.len().saturating_sub(longest.saturating_sub(1));
        while !self.held.is_char_boundary(from) {
            from += 1;
        }
        let suffixes = self.held[from..].char_indices().map(|(i, _)| from + i);
        suffixes
            .into_iter()
            .find(|&i| self.stops.iter().any(|stop| stop.starts_with(&self.held[i..])))
            .unwrap_or(self.held.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn holds_back_a_possible_beginning() {
        let mut matcher = StopMatcher::new(vec!["END".into(), String::new()]);
        assert_eq!(matcher.push("the E"), Checked { text: "the ".into(), stopped: false });
        assert_eq!(matcher.push("N"), Checked { text: String::new(), stopped: false });
        assert_eq!(matcher.push("ough"), Checked { text: "ENough".into(), stopped: false });
        assert_eq!(matcher.push(" END."), Checked { text: " ".into(), stopped: true });
    }

    proptest! {
        /// However a text is cut, what comes out is what stands before the first stop string.
        #[test]
        fn any_cut(text in "[ab\u{e9}]{0,24}", stops in prop::collection::vec("[ab\u{e9}]{1,3}", 0..3),
                   cuts in prop::collection::vec(0usize..24, 0..6)) {
            let expected = (0..=text.len()).filter(|&i| text.is_char_boundary(i)).find_map(|end| {
                stops.iter().filter(|s| text[..end].ends_with(s.as_str())).map(|s| end - s.len()).min()
            });
            let mut matcher = StopMatcher::new(stops.clone());
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(text.len()))
                .filter(|&c| text.is_char_boundary(c)).collect();
            cuts.push(text.len());
            cuts.sort_unstable();
            let (mut out, mut from, mut stopped) = (String::new(), 0, false);
            for cut in cuts {
                let checked = matcher.push(&text[from..cut]);
                from = cut;
                out.push_str(&checked.text);
                if checked.stopped { stopped = true; break; }
            }
            if !stopped { out.push_str(&matcher.finish()); }
            prop_assert_eq!(stopped, expected.is_some());
            prop_assert_eq!(out.as_str(), &text[..expected.unwrap_or(text.len())]);
        }
    }
}
