//! The sender of a request.

/// The sender of a request. Requests with a higher priority start before those with a lower one.
/// Among equal priorities the client that was served the fewest tokens is next. So a client with
/// many requests does not hold up another with few.
///
/// ```
/// use pelton::{Client, GenerateOptions};
///
/// let options = GenerateOptions::default().client(Client::new(7).priority(1));
/// assert_eq!(options.client.id, 7);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Client {
    /// Any number; requests with the same one have the same sender.
    pub id: u64,
    /// The priority, 0 by default.
    pub priority: i32,
}

impl Client {
    /// A client with the priority 0.
    pub fn new(id: u64) -> Self {
        Self { id, priority: 0 }
    }

    /// Sets the priority of its requests.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }
}
