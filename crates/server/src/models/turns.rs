//! The turns of requests that run one after the other, fair to the clients that wait.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pelton::Client;
use tokio::sync::oneshot;

use crate::error::ApiError;

/// The pause after which a refused request may try again.
const RETRY: Duration = Duration::from_secs(5);

/// The queue. The next turn goes to the highest priority, then to the client whose last turn lies
/// the longest ago, then to the request that came first.
#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State>,
    /// The most requests that wait.
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    is_taken: bool,
    /// In the order of their arrival.
    waiting: Vec<Waiting>,
    /// The number of the last turn of each client.
    last: BTreeMap<u64, u64>,
    turns: u64,
    arrived: u64,
}

/// A request that waits.
#[derive(Debug)]
struct Waiting {
    number: u64,
    client: Client,
    sender: oneshot::Sender<Turn>,
}

/// The turn of a request. Its end begins the next one.
#[derive(Debug)]
pub(crate) struct Turn(Arc<Turns>);

impl Drop for Turn {
    fn drop(&mut self) {
        let next = self.0.lock().next();
        if let Some(next) = next {
            // a request that has gone gives the turn back
            drop(next.send(Turn(Arc::clone(&self.0))));
        }
    }
}

/// Takes a request out of the queue that waits no longer.
struct Leave<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.turns.lock().waiting.retain(|one| one.number != self.number);
    }
}

impl State {
    /// Gives the turn to the next request, if one waits.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let last = |one: &Waiting| self.last.get(&one.client.id).copied().unwrap_or(0);
        let order = |one: &Waiting| (-i64::from(one.client.priority), last(one), one.number);
        let next = (0..self.waiting.len()).min_by_key(|&i| order(&self.waiting[i]));
        let Some(next) = next else {
            self.is_taken = false;
            // nobody waits whom the past would matter to
            self.last.clear();
            return None;
        };
        let next = self.waiting.remove(next);
        self.begin(next.client);
        Some(next.sender)
    }

    fn begin(&mut self, client: Client) {
        self.turns += 1;
        self.is_taken = true;
        self.last.insert(client.id, self.turns);
    }
}

impl Turns {
    /// A queue in which at most `most` requests wait.
    pub(super) fn new(most: usize) -> Self {
        Self { state: Mutex::default(), most }
    }

    /// Waits for a turn. A request that is dropped leaves the queue.
    pub(super) async fn wait(self: &Arc<Self>, client: Client) -> Result<Turn, ApiError> {
        let (receiver, _leave) = {
            let mut state = self.lock();
            if !state.is_taken {
                state.begin(client);
                return Ok(Turn(Arc::clone(self)));
            }
            if state.waiting.len() >= self.most {
                let message =
                    format!("{} requests wait for the model already, expected fewer", self.most);
                return Err(ApiError::busy(message, RETRY));
            }
            state.arrived += 1;
            let (number, (sender, receiver)) = (state.arrived, oneshot::channel());
            state.waiting.push(Waiting { number, client, sender });
            (receiver, Leave { turns: self, number })
        };
        receiver.await.map_err(|_| ApiError::unavailable("the model was unloaded"))
    }

    /// Requests that run, and that wait.
    pub(super) fn count(&self) -> (usize, usize) {
        let state = self.lock();
        (usize::from(state.is_taken), state.waiting.len())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clients in the order of their turns, if they came in this one while another request ran.
    async fn order(clients: &[(u64, i32)]) -> Vec<u64> {
        let turns = Arc::new(Turns::new(16));
        let first = turns.wait(Client::new(9)).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (i, &(id, priority)) in clients.iter().enumerate() {
            let (turns, order) = (Arc::clone(&turns), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let turn = turns.wait(Client::new(id).priority(priority)).await.unwrap();
                order.lock().unwrap().push(id);
                drop(turn);
            }));
            while first.0.count().1 <= i {
                tokio::task::yield_now().await;
            }
        }
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(Arc::clone(&turns).count(), (0, 0));
        Arc::try_unwrap(order).unwrap().into_inner().unwrap()
    }

    #[tokio::test]
    async fn clients_have_turns_one_after_the_other() {
        assert_eq!(
            order(&[(1, 0), (1, 0), (1, 0), (2, 0), (3, 0), (2, 0)]).await,
            [1, 2, 3, 1, 2, 1]
        );
        assert_eq!(order(&[(9, 0), (1, 0)]).await, [1, 9]);
        assert_eq!(order(&[(1, 0), (2, 0), (3, 5)]).await, [3, 1, 2]);
    }

    #[tokio::test]
    async fn requests_that_go_leave_the_queue() {
        let turns = Arc::new(Turns::new(1));
        let first = turns.wait(Client::new(1)).await.unwrap();
        let waiting = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move { turns.wait(Client::new(2)).await.map(drop) }
        });
        while turns.count().1 == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(turns.wait(Client::new(3)).await.unwrap_err().status.as_u16(), 429);
        waiting.abort();
        assert!(waiting.await.is_err());
        assert_eq!(turns.count(), (1, 0));
        drop(first);
        assert_eq!(turns.count(), (0, 0));
        assert!(turns.wait(Client::new(3)).await.is_ok());
    }
}
