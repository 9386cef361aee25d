//! The responses that were stored: items of conversations, in memory, for a while.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

use crate::input::cost_of;

/// Limit of responses.
const RESPONSES: usize = 256;
/// Limit of bytes of all responses and items, as they are stored.
const BYTES: usize = 32 << 20;
/// Memory of a response beside its texts, in bytes.
const RESPONSE: usize = 512;
/// Memory of an item beside its texts, in bytes: two texts with what the allocator adds to them.
const ITEM: usize = 128;

/// The newest responses of all keys. The oldest ones make room. All are stored as compact JSON:
/// values take many times the memory of their text.
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
    body: Box<str>,
    /// All items of the conversation, those of the response at its end.
    items: Box<[Item]>,
    bytes: usize,
}

/// An item of a conversation, as JSON.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    id: Option<Box<str>>,
    json: Box<str>,
    /// The memory of its values once it is parsed, in bytes.
    cost: usize,
}

impl Item {
    pub(crate) fn new(value: &Value) -> Self {
        let id = value.get("id").and_then(Value::as_str).map(Box::from);
        Self { id, json: value.to_string().into_boxed_str(), cost: cost_of(value) }
    }

    /// The item.
    pub(crate) fn value(&self) -> Value {
        // it was a value
        serde_json::from_str(&self.json).unwrap_or_default()
    }

    /// The memory of its values, in bytes.
    pub(crate) fn cost(&self) -> usize {
        self.cost
    }

    /// The memory that it takes here.
    fn bytes(&self) -> usize {
        self.json.len() + self.id.as_ref().map_or(0, |id| id.len()) + ITEM
    }
}

impl Store {
    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a response and the items of its conversation, its own at their end.
    pub(crate) fn add(&self, key: Option<usize>, body: &Value, items: Vec<Item>) {
        let id = body["id"].as_str().unwrap_or_default().to_owned();
        let body = body.to_string().into_boxed_str();
        let of_items: usize = items.iter().map(Item::bytes).sum();
        let bytes = of_items.saturating_add(body.len() + id.len() + RESPONSE);
        if bytes > BYTES {
            return;
        }
        let items = items.into_boxed_slice();
        let mut stored = self.lock();
        stored.bytes += bytes;
        stored.responses.push_back(Response { key, id, body, items, bytes });
        while stored.responses.len() > RESPONSES || stored.bytes > BYTES {
            let Some(oldest) = stored.responses.pop_front() else { break };
            stored.bytes -= oldest.bytes;
        }
    }

    /// The JSON of a response of a key.
    pub(crate) fn body(&self, key: Option<usize>, id: &str) -> Option<Box<str>> {
        let stored = self.lock();
        let mut all = stored.responses.iter();
        Some(all.find(|one| one.key == key && one.id == id)?.body.clone())
    }

    /// Forgets a response of a key, with the items that no other response has. Whether there was
    /// one.
    pub(crate) fn remove(&self, key: Option<usize>, id: &str) -> bool {
        let mut stored = self.lock();
        let at = stored.responses.iter().position(|one| one.key == key && one.id == id);
        let removed = at.and_then(|at| stored.responses.remove(at));
        stored.bytes -= removed.as_ref().map_or(0, |one| one.bytes);
        removed.is_some()
    }

    /// The items of the conversation that ends with a response of a key.
    pub(crate) fn response(&self, key: Option<usize>, id: &str) -> Option<Vec<Item>> {
        let stored = self.lock();
        let mut all = stored.responses.iter().rev();
        Some(all.find(|one| one.key == key && one.id == id)?.items.to_vec())
    }

    /// An item of a key's conversations.
    pub(crate) fn item(&self, key: Option<usize>, id: &str) -> Option<Item> {
        let stored = self.lock();
        let own = stored.responses.iter().rev().filter(|one| one.key == key);
        let mut items = own.flat_map(|one| one.items.iter().rev());
        items.find(|item| item.id.as_deref() == Some(id)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_oldest_make_room_and_keys_see_their_own() {
        let body = |id: &str| json!({"id": id});
        let items = |values: &[Value]| values.iter().map(Item::new).collect();
        let store = Store::default();
        for i in 0..=RESPONSES {
            store.add(
                Some(1),
                &body(&format!("r{i}")),
                items(&[json!({"id": format!("m{i}"), "n": i})]),
            );
        }
        assert!(store.response(Some(1), "r0").is_none());
        assert!(store.item(Some(1), "m0").is_none());
        assert_eq!(store.response(Some(1), "r1").unwrap().len(), 1);
        assert_eq!(store.item(Some(1), "m9").unwrap().value()["n"], 9);
        assert!(store.item(Some(2), "m9").is_none() && store.response(None, "r9").is_none());
        // by their bytes too
        let large = json!({"id": "large", "text": "a".repeat(BYTES / 2)});
        store.add(None, &body("a"), items(std::slice::from_ref(&large)));
        assert_eq!(store.response(Some(1), "r9").map(|items| items.len()), Some(1));
        store.add(None, &body("b"), items(std::slice::from_ref(&large)));
        assert!(store.response(None, "a").is_none() && store.response(None, "b").is_some());
        store.add(None, &body("c"), items(&[large.clone(), large]));
        assert!(store.response(None, "c").is_none());
        assert!(store.lock().bytes <= BYTES);
        // by request
        let shown = store.body(None, "b").map(|text| serde_json::from_str(&text).unwrap());
        assert_eq!((shown, store.body(Some(1), "b")), (Some(body("b")), None));
        assert!(!store.remove(Some(1), "b") && store.remove(None, "b") && !store.remove(None, "b"));
        assert!(store.response(None, "b").is_none() && store.item(None, "large").is_none());
        assert_eq!(store.lock().bytes, 0);
    }

    /// The stored text counts, and a bound of each item's cost beside it.
    #[test]
    fn values_are_stored_as_their_text() {
        let store = Store::default();
        let many = Value::Array(vec![json!({"a": 0}); 10_000]);
        let body = json!({"id": "r", "metadata": many});
        let (text, item) = (body.to_string().len(), Item::new(&many));
        // parsed again, it costs what a body of it does
        assert!(item.cost() > 7_000_000 && item.value() == many);
        store.add(None, &body, vec![item]);
        let bytes = store.lock().bytes;
        assert!(bytes >= text + many.to_string().len() && bytes < 2 * text + 1024, "{bytes}");
        // a million of the smallest items is more than there may be
        store.add(None, &json!({"id": "s"}), vec![Item::new(&json!({})); 1_000_000]);
        assert!(store.response(None, "s").is_none());
    }
}
