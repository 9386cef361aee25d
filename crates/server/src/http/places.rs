//! Places for connections. When all are taken, one that waits for its client makes room.
//!
//! A client that holds connections and sends nothing must not keep others out. So the connection to
//! close is one of the machine that has the most, and the one that has waited for the longest time.
//! Some places above the limit are for health checks, which are answered in any case.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

/// Places above the limit, for requests about the server's health.
pub(super) const RESERVE: usize = 64;
/// How long a connection must have waited for a request before it makes room.
const WAITING: Duration = Duration::from_millis(100);
/// How long a connection must have waited for more of a body before it makes room.
const READING: Duration = Duration::from_secs(2);

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It waits for a request, or for the rest of its head.
    Waiting,
    /// It waits for more of a body.
    Reading,
    /// A request is answered.
    Answering,
}

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    doing: Doing,
    /// Since when.
    since: Instant,
    /// Whether a request has come.
    asked: bool,
    close: Arc<Notify>,
    /// Whether it was told to close.
    closes: bool,
}

/// All connections.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    open: Mutex<Open>,
    /// A connection has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    connections: BTreeMap<u64, Connection>,
    /// Those that were told to close.
    closing: usize,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    /// Notified when the connection must make room.
    pub(super) close: Arc<Notify>,
    /// Whether it is one above the limit.
    pub(super) is_reserve: bool,
}

impl Places {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), open: Mutex::default(), ended: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection of a machine; waits for one if even the reserve is full.
    pub(super) async fn take(self: &Arc<Self>, peer: IpAddr) -> Place {
        loop {
            if let Some(place) = self.try_take(peer, Instant::now()) {
                return place;
            }
            // connections that are in use now may wait for their clients soon
            let _ = tokio::time::timeout(WAITING, self.ended.notified()).await;
        }
    }

    fn try_take(self: &Arc<Self>, peer: IpAddr, now: Instant) -> Option<Place> {
        let mut open = self.lock();
        let is_full = |open: &Open, most| open.connections.len() - open.closing >= most;
        // those of the reserve count too
        while is_full(&open, self.most) && open.close_one(now) {}
        let is_reserve = is_full(&open, self.most);
        if is_reserve && is_full(&open, self.most + RESERVE) {
            return None;
        }
        open.last += 1;
        let number = open.last;
        let close = Arc::new(Notify::new());
        let own = Arc::clone(&close);
        let connection = Connection {
            peer,
            doing: Doing::Waiting,
            since: now,
            asked: false,
            close: own,
            closes: false,
        };
        open.connections.insert(number, connection);
        Some(Place { places: Arc::clone(self), number, close, is_reserve })
    }

    /// Closes a connection that waits for its client, if there is one.
    pub(super) fn make_room(&self) {
        self.lock().close_one(Instant::now());
    }
}

impl Open {
    /// Tells a connection that waits for its client to close. Whether there is one.
    fn close_one(&mut self, now: Instant) -> bool {
        let mut of_peers: HashMap<IpAddr, usize> = HashMap::new();
        for one in self.connections.values().filter(|one| !one.closes) {
            *of_peers.entry(one.peer).or_default() += 1;
        }
        let could_close = |one: &Connection| {
            let least = match one.doing {
                Doing::Waiting => WAITING,
                Doing::Reading => READING,
                Doing::Answering => return false,
            };
            !one.closes && now.saturating_duration_since(one.since) >= least
        };
        let all = self.connections.values_mut().filter(|one| could_close(one));
        let count = |one: &Connection| of_peers.get(&one.peer).copied().unwrap_or(0);
        // the first of several that have waited for the same time is the oldest
        let Some(one) = all.min_by_key(|one| (std::cmp::Reverse(count(one)), one.since)) else {
            return false;
        };
        one.closes = true;
        one.close.notify_one();
        self.closing += 1;
        true
    }
}

impl Place {
    /// Says what the connection does from now on.
    pub(super) fn does(&self, doing: Doing) {
        if let Some(one) = self.places.lock().connections.get_mut(&self.number) {
            (one.doing, one.since) = (doing, Instant::now());
            one.asked = true;
        }
    }

    /// Whether a request has come.
    pub(super) fn has_asked(&self) -> bool {
        self.places.lock().connections.get(&self.number).is_some_and(|one| one.asked)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.places.lock();
        let one = open.connections.remove(&self.number);
        if one.is_some_and(|one| one.closes) {
            open.closing -= 1;
        }
        drop(open);
        self.places.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// The numbers of connections that were told to close.
    fn closing(places: &Places) -> Vec<u64> {
        let open = places.lock();
        open.connections.iter().filter(|(_, one)| one.closes).map(|(number, _)| *number).collect()
    }

    #[test]
    fn the_longest_idle_of_the_machine_with_the_most_makes_room() {
        let (places, begun) = (Places::new(4), Instant::now());
        let at = |milliseconds| begun + Duration::from_millis(milliseconds);
        let take = |last, now| places.try_take(peer(last), now).unwrap();
        // the other's is older
        let mut all = vec![take(2, at(0)), take(1, at(1)), take(1, at(2)), take(1, at(3))];
        all.push(take(3, at(500)));
        assert_eq!(closing(&places), [2]);
        assert!(!all[4].is_reserve);
        // a connection that answers is left alone
        all[2].does(Doing::Answering);
        all.push(take(3, at(500)));
        assert_eq!(closing(&places), [2, 4]);
        // one that has just come is too
        let reserve = take(1, begun);
        assert!(reserve.is_reserve, "the others have just come");
    }

    #[test]
    fn a_reserve_is_left_when_all_answer() {
        let (places, now) = (Places::new(2), Instant::now());
        let later = now + Duration::from_secs(60);
        let take = || places.try_take(peer(1), later);
        let mut all: Vec<Place> = (0..2).filter_map(|_| take()).collect();
        all.iter().for_each(|place| place.does(Doing::Answering));
        for _ in 0..RESERVE {
            let place = take().unwrap();
            assert!(place.is_reserve);
            place.does(Doing::Answering);
            all.push(place);
        }
        assert!(take().is_none() && closing(&places).is_empty());
        all.pop();
        assert!(take().is_some_and(|place| place.is_reserve));
        all.clear();
        assert!(places.lock().connections.is_empty());
        assert!(take().is_some_and(|place| !place.is_reserve));
    }
}
