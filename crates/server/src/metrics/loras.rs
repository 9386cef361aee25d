//! Requests by the LoRA adapters that they name.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The requests of one adapter.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// Those before their first token.
    waiting: usize,
    running: usize,
}

/// The adapters that requests of one model name at the moment.
#[derive(Debug, Default)]
pub(crate) struct Loras(Mutex<BTreeMap<String, Count>>);

impl Loras {
    /// The names of adapters whose requests have first tokens, and of those that others wait for.
    pub(crate) fn names(&self) -> [String; 2] {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let list = |uses: fn(&Count) -> usize| {
            let names = counts.iter().filter(|(_, count)| uses(count) > 0);
            names.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(",")
        };
        [list(|count| count.running), list(|count| count.waiting)]
    }

    fn change(&self, names: &[String], change: impl Fn(&mut Count)) {
        if names.is_empty() {
            return;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            change(counts.entry(name.clone()).or_default());
        }
        counts.retain(|_, count| count.waiting + count.running > 0);
    }
}

/// The adapters of one request, from its submission until this is dropped.
#[derive(Debug)]
pub(crate) struct LoraUse {
    loras: Arc<Loras>,
    names: Vec<String>,
    runs: bool,
}

impl LoraUse {
    pub(crate) fn new(loras: &Arc<Loras>, names: Vec<String>) -> Self {
        loras.change(&names, |count| count.waiting += 1);
        Self { loras: Arc::clone(loras), names, runs: false }
    }

    /// The request has its first token.
    pub(crate) fn run(&mut self) {
        if !std::mem::replace(&mut self.runs, true) {
            self.loras.change(&self.names, |count| {
                count.waiting = count.waiting.saturating_sub(1);
                count.running += 1;
            });
        }
    }
}

impl Drop for LoraUse {
    fn drop(&mut self) {
        let runs = self.runs;
        self.loras.change(&self.names, |count| {
            let uses = if runs { &mut count.running } else { &mut count.waiting };
            *uses = uses.saturating_sub(1);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_requests_that_wait_and_run() {
        let loras = Arc::new(Loras::default());
        let names = |waiting: &str, running: &str| [running.to_owned(), waiting.to_owned()];
        let mut first = LoraUse::new(&loras, vec!["a".into(), "b".into()]);
        let second = LoraUse::new(&loras, vec!["b".into()]);
        let _none = LoraUse::new(&loras, Vec::new());
        assert_eq!(loras.names(), names("a,b", ""));
        first.run();
        first.run();
        assert_eq!(loras.names(), names("b", "a,b"));
        drop(second);
        assert_eq!(loras.names(), names("", "a,b"));
        drop(first);
        assert_eq!(loras.names(), names("", ""));
    }
}
