//! The responses that were stored: items of conversations, in memory, for a while.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

/// Limit of responses.
const RESPONSES: usize = 256;
/// Limit of bytes of all items as JSON.
const BYTES: usize = 32 << 20;

/// The newest responses of all keys. The oldest ones make room.
#[derive(Debug, Default)]
pub(crate) struct Store(Mutex<Stored>);

#[derive(Debug, Default)]
struct Stored {
    responses: VecDeque<Response>,
    bytes: usize,
}

#[derive(Debug)]
struct Response {
    /// Whose it is.
    key: Option<usize>,
    id: String,
    /// The response as its request was answered.
    body: Value,
    /// All items of the conversation, those of the response at its end.
    items: Vec<Value>,
    bytes: usize,
}

impl Store {
    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a response and the items of its conversation, its own at their end.
    pub(crate) fn add(&self, key: Option<usize>, body: Value, items: Vec<Value>) {
        let id = body["id"].as_str().unwrap_or_default().to_owned();
        let bytes = items.iter().chain([&body]).map(|value| value.to_string().len()).sum();
        if bytes > BYTES {
            return;
        }
        let mut stored = self.lock();
        stored.bytes += bytes;
        stored.responses.push_back(Response { key, id, body, items, bytes });
        while stored.responses.len() > RESPONSES || stored.bytes > BYTES {
            let Some(oldest) = stored.responses.pop_front() else { break };
            stored.bytes -= oldest.bytes;
        }
    }

    /// A response of a key.
    pub(crate) fn body(&self, key: Option<usize>, id: &str) -> Option<Value> {
        let stored = self.lock();
        let mut all = stored.responses.iter();
        Some(all.find(|one| one.key == key && one.id == id)?.body.clone())
    }

    /// Forgets a response of a key, with the items that no other response has. Whether there was one.
    pub(crate) fn remove(&self, key: Option<usize>, id: &str) -> bool {
        let mut stored = self.lock();
        let at = stored.responses.iter().position(|one| one.key == key && one.id == id);
        let removed = at.and_then(|at| stored.responses.remove(at));
        stored.bytes -= removed.as_ref().map_or(0, |one| one.bytes);
        removed.is_some()
    }

    /// The items of the conversation that ends with a response of a key.
    pub(crate) fn response(&self, key: Option<usize>, id: &str) -> Option<Vec<Value>> {
        let stored = self.lock();
        let mut all = stored.responses.iter().rev();
        Some(all.find(|one| one.key == key && one.id == id)?.items.clone())
    }

    /// An item of a key's conversations.
    pub(crate) fn item(&self, key: Option<usize>, id: &str) -> Option<Value> {
        let stored = self.lock();
        let own = stored.responses.iter().rev().filter(|one| one.key == key);
        let mut items = own.flat_map(|one| one.items.iter().rev());
        items.find(|item| item.get("id").and_then(Value::as_str) == Some(id)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_oldest_make_room_and_keys_see_their_own() {
        let body = |id: &str| json!({"id": id});
        let store = Store::default();
        for i in 0..=RESPONSES {
            store.add(
                Some(1),
                body(&format!("r{i}")),
                vec![json!({"id": format!("m{i}"), "n": i})],
            );
        }
        assert_eq!(store.response(Some(1), "r0"), None);
        assert_eq!(store.item(Some(1), "m0"), None);
        assert_eq!(store.response(Some(1), "r1").unwrap().len(), 1);
        assert_eq!(store.item(Some(1), "m9").unwrap()["n"], 9);
        assert_eq!((store.item(Some(2), "m9"), store.response(None, "r9")), (None, None));
        // by their bytes too
        let large = json!({"id": "large", "text": "a".repeat(BYTES / 2)});
        store.add(None, body("a"), vec![large.clone()]);
        assert_eq!(store.response(Some(1), "r9").map(|items| items.len()), Some(1));
        store.add(None, body("b"), vec![large.clone()]);
        assert!(store.response(None, "a").is_none() && store.response(None, "b").is_some());
        store.add(None, body("c"), vec![large.clone(), large]);
        assert!(store.response(None, "c").is_none());
        assert!(store.lock().bytes <= BYTES);
        // by request
        assert_eq!((store.body(None, "b"), store.body(Some(1), "b")), (Some(body("b")), None));
        assert!(!store.remove(Some(1), "b") && store.remove(None, "b") && !store.remove(None, "b"));
        assert!(store.response(None, "b").is_none() && store.item(None, "large").is_none());
        assert_eq!(store.lock().bytes, 0);
    }
}
