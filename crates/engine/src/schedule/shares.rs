//! The tokens that each client was served, by which requests are ordered (start-time fair
//! queueing).

use std::collections::BTreeMap;

/// The tokens of one client.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// Requests that wait or run.
    requests: usize,
    served: u64,
}

/// The tokens that each client was served.
#[derive(Debug, Default)]
pub(super) struct Shares(BTreeMap<u64, Share>);

impl Shares {
    /// Counts a request of a client. One that had none counts as served as much as the least served
    /// one that has: time without requests earns nothing.
    pub(super) fn enter(&mut self, client: u64) {
        let active = self.0.values().filter(|share| share.requests > 0);
        let least = active.map(|share| share.served).min();
        // an idle model forgets all clients, a busy one those that would be raised anyway
        self.0.retain(|_, share| {
            share.requests > 0 || least.is_some_and(|least| share.served > least)
        });
        let share = self.0.entry(client).or_default();
        if share.requests == 0 {
            share.served = share.served.max(least.unwrap_or(0));
        }
        share.requests += 1;
    }

    /// Charges a client with tokens.
    pub(super) fn charge(&mut self, client: u64, tokens: u64) {
        if let Some(share) = self.0.get_mut(&client) {
            share.served = share.served.saturating_add(tokens);
        }
    }

    /// Ends a request of a client, which was charged for a text of `expected` tokens and
    /// has `generated` ones.
    pub(super) fn leave(&mut self, client: u64, expected: u64, generated: u64) {
        if let Some(share) = self.0.get_mut(&client) {
            share.requests = share.requests.saturating_sub(1);
            share.served = share.served.saturating_add(generated).saturating_sub(expected);
        }
    }

    /// The tokens that a client was served.
    pub(super) fn served(&self, client: u64) -> u64 {
        self.0.get(&client).map_or(0, |share| share.served)
    }

    /// Whether there are several clients, among which the order matters.
    pub(super) fn are_several(&self) -> bool {
        self.0.len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_clients_earn_nothing() {
        let mut shares = Shares::default();
        shares.enter(1);
        shares.charge(1, 1000);
        shares.enter(2);
        assert_eq!(shares.served(2), 1000);
        shares.charge(2, 500);
        shares.leave(2, 300, 200);
        // it comes back with what it was served, as that is more than the least
        shares.enter(2);
        assert_eq!(shares.served(2), 1400);
        shares.leave(1, 0, 0);
        shares.leave(2, 0, 0);
        shares.enter(3);
        assert_eq!((shares.served(3), shares.are_several()), (0, false));
    }
}
