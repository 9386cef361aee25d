//! Numbers for the namespaces of cached prefixes: no two namespaces have the same.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// Limit of the bytes of texts that are remembered. Then all are forgotten, and with them the
/// cached prefixes of their namespaces.
const BYTES_MAX: usize = 1 << 20;

/// The number of a key, and a text that its client chose.
type Pair = (Option<usize>, Option<String>);

#[derive(Debug, Default)]
struct Table {
    numbers: HashMap<Pair, u64>,
    bytes: usize,
    last: u64,
    /// The number of the namespace of all.
    all: u64,
}

/// The namespaces so far. Numbers are never used again.
#[derive(Debug, Default)]
pub(crate) struct Salts(Mutex<Table>);

impl Salts {
    /// The number of a namespace; 0 for that of all, until [`forget`](Self::forget).
    pub(crate) fn number(&self, key: Option<usize>, chosen: Option<&str>) -> u64 {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if key.is_none() && chosen.is_none() {
            return table.all;
        }
        let pair = (key, chosen.map(str::to_owned));
        if let Some(&number) = table.numbers.get(&pair) {
            return number;
        }
        // and what an entry without a text takes
        let bytes = chosen.map_or(0, str::len).saturating_add(64);
        if table.bytes.saturating_add(bytes) > BYTES_MAX {
            table.numbers.clear();
            table.bytes = 0;
        }
        table.last += 1;
        table.bytes += bytes;
        let number = table.last;
        table.numbers.insert(pair, number);
        number
    }

    /// Gives all namespaces new numbers, under which no prefix is cached.
    pub(crate) fn forget(&self) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.numbers.clear();
        table.bytes = 0;
        table.last += 1;
        table.all = table.last;
    }

    /// The key and the text of a namespace, unless they were forgotten.
    pub(crate) fn pair(&self, number: u64) -> Option<(Option<usize>, Option<String>)> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if number == table.all {
            return Some((None, None));
        }
        table.numbers.iter().find(|(_, known)| **known == number).map(|(pair, _)| pair.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_numbers_of_their_own() {
        let salts = Salts::default();
        assert_eq!(salts.number(None, None), 0);
        let pairs = [(Some(0), None), (Some(1), None), (None, Some("0")), (Some(0), Some("0"))];
        let numbers = pairs.map(|(key, chosen)| salts.number(key, chosen));
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert_eq!(pairs.map(|(key, chosen)| salts.number(key, chosen)), numbers);
        assert_eq!(salts.pair(4), Some((Some(0), Some("0".to_owned()))));
        assert_eq!(salts.pair(5), None);
        // forgotten texts never give their numbers to others
        let long = "x".repeat(BYTES_MAX / 2);
        for i in 0..4 {
            salts.number(None, Some(&format!("{long}{i}")));
        }
        assert!(salts.number(Some(1), None) > 8);
        assert!(salts.0.lock().unwrap().bytes <= BYTES_MAX);
        let before = salts.number(Some(1), None);
        salts.forget();
        let all = salts.number(None, None);
        assert!(all > before && salts.number(Some(1), None) > all);
        assert_eq!(salts.pair(all), Some((None, None)));
    }
}
