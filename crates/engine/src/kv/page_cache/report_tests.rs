//! A listener knows from reports alone which prompts hit what.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use pelton_testing::Random;

use super::*;
use crate::api::CacheEvent;

/// The pages that a router learns of, by the identity before them, their tokens and their salt.
#[derive(Default)]
struct Listener {
    pages: HashMap<(Option<u64>, u64, Vec<u32>), u64>,
    clears: usize,
}

impl Listener {
    fn hear(&mut self, event: CacheEvent) {
        match event {
            CacheEvent::Stored(page) => {
                let key = (page.parent, page.salt, page.tokens);
                assert_eq!(self.pages.insert(key, page.id), None, "a page is stored twice");
            }
            CacheEvent::Removed(id) => {
                let before = self.pages.len();
                self.pages.retain(|_, page| *page != id);
                assert_eq!(self.pages.len() + 1, before, "another page than one is removed");
            }
            CacheEvent::Cleared => {
                self.pages.clear();
                self.clears += 1;
            }
        }
    }

    /// The positions that a prompt should hit.
    fn hit(&self, salt: u64, tokens: &[u32]) -> usize {
        let (mut parent, mut hit) = (None, 0);
        for page in tokens[..tokens.len() - 1].chunks_exact(PAGE) {
            let Some(&id) = self.pages.get(&(parent, salt, page.to_vec())) else { break };
            (parent, hit) = (Some(id), hit + PAGE);
        }
        hit
    }
}

fn reported(mut kv: PageCache) -> (PageCache, Arc<Mutex<Listener>>) {
    let listener = Arc::new(Mutex::new(Listener::default()));
    let hears = Arc::clone(&listener);
    kv = kv.reporting_to(Some(CacheCallback::new(move |events| {
        events.into_iter().for_each(|event| hears.lock().unwrap().hear(event));
    })));
    (kv, listener)
}

#[test]
fn reports_predict_every_hit() {
    for phases_agree in [true, false] {
        let cache = PageCache::new(&[CacheGroup { window: None }], &[40], None, phases_agree);
        let (mut kv, listener) = reported(cache);
        let mut random = Random::new(5);
        let mut running: Vec<SequencePages> = Vec::new();
        for _ in 0..3000 {
            // texts that share up to seven pages, and where they branch off
            let mut text: Vec<u32> = (0..7 * PAGE).map(|i| (i / PAGE) as u32).collect();
            text.truncate(1 + random.below(7 * PAGE));
            text.extend((0..random.below(3 * PAGE)).map(|_| random.below(2) as u32));
            let prompt = 1 + random.below(text.len());
            let salt = random.below(2) as u64;
            kv.send_reports();
            // as a prompt of its own, with the token that begins its answer
            let expected = listener.lock().unwrap().hit(salt, &text[..prompt]);
            let (mut pages, hit) = kv.lookup(salt, &text[..prompt], prompt);
            assert_eq!(hit, expected);
            if kv.grow(&mut pages, text.len()).is_ok() {
                pages.mark_sent();
                kv.commit(&mut pages, &text, prompt, text.len());
                running.push(pages);
            } else {
                kv.release(&mut pages);
            }
            while running.len() > random.below(4) {
                let mut ended = running.swap_remove(random.below(running.len()));
                kv.release(&mut ended);
            }
        }
        assert!(kv.evictions() > 1000, "{} evictions", kv.evictions());
        kv.send_reports();
        let known = listener.lock().unwrap().pages.len();
        assert!(known > 0 && known <= kv.counts()[0].cached);
        drop(kv);
        let listener = listener.lock().unwrap();
        assert_eq!((listener.pages.len(), listener.clears), (0, 2));
    }
}

#[test]
fn a_window_does_not_take_reported_pages_back() {
    let groups = [CacheGroup { window: Some(70) }, CacheGroup { window: None }];
    let (mut kv, listener) = reported(PageCache::new(&groups, &[8, 40], None, true));
    let text: Vec<u32> = (0..6 * PAGE as u32 + 1).collect();
    let (mut pages, _) = kv.lookup(0, &text, text.len());
    for position in (0..text.len()).step_by(PAGE) {
        kv.slide(&mut pages, position);
        kv.grow(&mut pages, (position + PAGE).min(text.len())).unwrap();
        pages.mark_sent();
        kv.commit(&mut pages, &text, text.len(), (position + PAGE).min(text.len()));
    }
    kv.send_reports();
    assert_eq!(listener.lock().unwrap().hit(0, &text), 6 * PAGE);
    assert_eq!(kv.lookup(0, &text, text.len()).1, 6 * PAGE);
}
