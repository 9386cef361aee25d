//! The choice of a replica for each request: the one that probably has the longest part of its
//! prompt cached, or the one with the fewest requests.
//!
//! A page of a prompt is known by a hash of its tokens, of those before it, and of what divides
//! prefixes. The table of pages is a guess: a replica may have evicted a page since.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use pelton::graph::PAGE;

/// The most replicas: a set of them is the bits of a number.
pub(crate) const REPLICAS_MAX: usize = 64;
/// Pages of one generation of the table, of which there are two: 3 MiB in all.
const PAGES_MAX: usize = 1 << 16;
/// Requests that a replica may have more than another one before it is much busier.
const MORE: usize = 4;

/// A set of replicas, a bit each.
pub(super) type Set = u64;

/// The set of the first replicas.
pub(super) fn first(count: usize) -> Set {
    (0..count).fold(0, |set, replica| set | of(replica))
}

/// The set of one replica.
pub(super) fn of(replica: usize) -> Set {
    1 << replica
}

/// The requests of each replica, and the pages that it probably has cached.
#[derive(Debug)]
pub(super) struct Balance {
    requests: Vec<AtomicUsize>,
    pages: Mutex<Pages>,
    hasher: RandomState,
}

/// The replicas that have computed a page, for the newest pages.
#[derive(Debug, Default)]
struct Pages {
    newer: HashMap<u64, Set>,
    older: HashMap<u64, Set>,
}

/// The pages of a prompt, and its end, to which the text is added.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefix {
    pages: Vec<u64>,
    end: End,
}

/// The end of a text: the hash of its whole pages, and the tokens after them.
#[derive(Clone, Debug, Default)]
struct End {
    hash: u64,
    tokens: Vec<u32>,
}

/// The place of a request at a replica, where it counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    balance: Arc<Balance>,
    replica: usize,
    end: End,
}

impl Pages {
    fn has(&self, page: u64) -> Set {
        let in_one = |pages: &HashMap<u64, Set>| pages.get(&page).copied().unwrap_or(0);
        in_one(&self.newer) | in_one(&self.older)
    }

    fn add(&mut self, page: u64, replica: usize) {
        let replicas = self.has(page) | of(replica);
        if self.newer.len() >= PAGES_MAX {
            self.older = mem::take(&mut self.newer);
        }
        self.newer.insert(page, replicas);
    }

    /// Those of some replicas that have the most of the first pages; none if no replica has the
    /// first one.
    fn nearest(&self, pages: &[u64], among: Set) -> Set {
        let mut nearest = 0;
        for &page in pages {
            let have = self.has(page) & if nearest == 0 { among } else { nearest };
            if have == 0 {
                break;
            }
            nearest = have;
        }
        nearest
    }
}

impl Balance {
    pub(super) fn new(replicas: usize) -> Self {
        Self {
            requests: (0..replicas).map(|_| AtomicUsize::new(0)).collect(),
            pages: Mutex::default(),
            hasher: RandomState::new(),
        }
    }

    /// The requests that a replica has at the moment, those that wait included.
    pub(super) fn requests(&self, replica: usize) -> usize {
        self.requests[replica].load(Ordering::Relaxed)
    }

    /// The pages of a prompt below what divides prefixes. A single replica needs none.
    pub(super) fn prefix(&self, divides: impl Hash, tokens: &[u32]) -> Prefix {
        let mut prefix = Prefix::default();
        if self.requests.len() > 1 {
            prefix.end.hash = self.hasher.hash_one(divides);
            prefix
                .pages
                .extend(tokens.iter().filter_map(|&token| self.push(&mut prefix.end, token)));
        }
        prefix
    }

    /// Adds a token to the end of a text. The hash of the page that it completes, if it does.
    fn push(&self, end: &mut End, token: u32) -> Option<u64> {
        end.tokens.push(token);
        (end.tokens.len() == PAGE).then(|| {
            end.hash = self.hasher.hash_one((end.hash, &end.tokens));
            end.tokens.clear();
            end.hash
        })
    }

    /// A place for a request at one of some replicas; `None` if there is none of them.
    pub(super) fn place(self: &Arc<Self>, prefix: &Prefix, among: Set) -> Option<Place> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        // the first one of several with as few requests
        let idlest = |set: Set| {
            let all = (0..self.requests.len()).filter(|&replica| set & of(replica) != 0);
            all.min_by_key(|&replica| self.requests(replica))
        };
        let least = idlest(among)?;
        let nearest = idlest(pages.nearest(&prefix.pages, among));
        let is_free =
            |&replica: &usize| !is_much_busier(self.requests(replica), self.requests(least));
        let replica = nearest.filter(is_free).unwrap_or(least);
        prefix.pages.iter().for_each(|&page| pages.add(page, replica));
        self.requests[replica].fetch_add(1, Ordering::Relaxed);
        Some(Place { balance: Arc::clone(self), replica, end: prefix.end.clone() })
    }
}

/// Whether a replica has so many more requests than another one that a cached prefix does not make
/// up for them.
fn is_much_busier(requests: usize, least: usize) -> bool {
    requests > least + MORE && 2 * requests > 3 * least
}

impl Place {
    pub(super) fn replica(&self) -> usize {
        self.replica
    }

    /// The text goes on with a token, so that a longer prompt can find it at the same replica.
    pub(super) fn push(&mut self, token: u32) {
        let Self { balance, replica, end } = self;
        if balance.requests.len() > 1
            && let Some(page) = balance.push(end, token)
        {
            balance.pages.lock().unwrap_or_else(PoisonError::into_inner).add(page, *replica);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.balance.requests[self.replica].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of pages that no other number has.
    fn text(number: u32, pages: u32) -> Vec<u32> {
        (0..pages * PAGE as u32).map(|i| number * 1000 + i).collect()
    }

    fn place(balance: &Arc<Balance>, salt: u64, tokens: &[u32]) -> Place {
        let prefix = balance.prefix(salt, tokens);
        balance.place(&prefix, first(balance.requests.len())).unwrap()
    }

    /// Keeps a number of requests at a replica.
    fn fill(balance: &Arc<Balance>, replica: usize, count: usize) -> Vec<Place> {
        (0..count).map(|_| balance.place(&Prefix::default(), of(replica)).unwrap()).collect()
    }

    #[test]
    fn requests_go_where_the_fewest_are() {
        let balance = Arc::new(Balance::new(3));
        let places: Vec<Place> = (0..7).map(|i| place(&balance, 0, &text(i, 1))).collect();
        let replicas: Vec<usize> = places.iter().map(Place::replica).collect();
        assert_eq!(replicas, [0, 1, 2, 0, 1, 2, 0]);
        drop(places);
        assert_eq!([0, 1, 2].map(|replica| balance.requests(replica)), [0; 3]);
        // replicas that are given up have none
        assert_eq!(balance.place(&Prefix::default(), of(2)).unwrap().replica(), 2);
        assert!(balance.place(&Prefix::default(), 0).is_none());
    }

    #[test]
    fn prompts_go_to_the_longest_part_of_theirs() {
        let balance = Arc::new(Balance::new(3));
        let long = text(1, 4);
        let busy = fill(&balance, 0, 1);
        assert_eq!(place(&balance, 0, &long[..2 * PAGE]).replica(), 1);
        let more = fill(&balance, 1, 6);
        assert_eq!(place(&balance, 0, &long[..3 * PAGE]).replica(), 2);
        drop((busy, more));
        // two pages are at both, the third one at the last
        assert_eq!(place(&balance, 0, &long).replica(), 2);
        assert_eq!(place(&balance, 0, &long[..2 * PAGE + 5]).replica(), 1);
        // less than a page, another text, other namespaces
        for (salt, tokens) in [(0, &long[..PAGE - 1]), (0, &text(2, 2)[..]), (7, &long[..])] {
            assert_eq!(place(&balance, salt, tokens).replica(), 0);
        }
    }

    #[test]
    fn a_much_busier_replica_gets_no_more() {
        let balance = Arc::new(Balance::new(2));
        let long = text(1, 3);
        let busy = fill(&balance, 0, 1);
        drop(place(&balance, 0, &long));
        drop(busy);
        let few = fill(&balance, 1, 4);
        assert_eq!(place(&balance, 0, &long).replica(), 1);
        let many = fill(&balance, 1, 1);
        assert_eq!(place(&balance, 0, &long).replica(), 0);
        drop((few, many));
        // both have it now
        let places: Vec<usize> = {
            let places: Vec<Place> = (0..4).map(|_| place(&balance, 0, &long)).collect();
            places.iter().map(Place::replica).collect()
        };
        assert_eq!(places, [0, 1, 0, 1]);
        for (requests, least, expected) in
            [(4, 0, false), (5, 0, true), (15, 10, false), (16, 10, true), (14, 9, true)]
        {
            assert_eq!(is_much_busier(requests, least), expected, "{requests} {least}");
        }
    }

    #[test]
    fn generated_tokens_are_found_by_the_next_turn() {
        let balance = Arc::new(Balance::new(2));
        let long = text(1, 3);
        let busy = fill(&balance, 0, 1);
        // the prompt has no whole page
        let mut first_turn = place(&balance, 0, &long[..10]);
        assert_eq!(first_turn.replica(), 1);
        long[10..PAGE + 20].iter().for_each(|&token| first_turn.push(token));
        drop((first_turn, busy));
        assert_eq!(place(&balance, 0, &long).replica(), 1);
    }

    #[test]
    fn the_table_of_pages_is_bounded() {
        let mut pages = Pages::default();
        for page in 0..5 * PAGES_MAX as u64 / 2 {
            pages.add(page, 1);
            // a page that is used again and again is kept
            pages.add(u64::MAX, 2);
        }
        assert!(pages.newer.len() <= PAGES_MAX && pages.older.len() <= PAGES_MAX);
        assert_eq!((pages.has(0), pages.has(2 * PAGES_MAX as u64)), (0, of(1)));
        assert_eq!(pages.has(u64::MAX), of(2));
    }

    #[test]
    fn a_single_replica_hashes_nothing() {
        let balance = Arc::new(Balance::new(1));
        let mut place = place(&balance, 0, &text(1, 3));
        text(2, 2).into_iter().for_each(|token| place.push(token));
        assert!(balance.pages.lock().unwrap().newer.is_empty());
    }

    #[test]
    fn requests_of_many_threads_leave_no_count() {
        let balance = Arc::new(Balance::new(4));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let balance = &balance;
                scope.spawn(move || {
                    for i in 0..200 {
                        place(balance, 0, &text(thread * 200 + i, 2));
                    }
                });
            }
        });
        assert_eq!([0, 1, 2, 3].map(|replica| balance.requests(replica)), [0; 4]);
    }
}
