use super::*;

/// The tokens of `pages` pages, different in each, and one more.
fn tokens(pages: usize, kind: u32) -> Vec<u32> {
    (0..pages * PAGE + 1).map(|i| kind * 1000 + (i / PAGE) as u32).collect()
}

fn cache(groups: &[(Option<usize>, usize)]) -> PageCache {
    let windows: Vec<CacheGroup> =
        groups.iter().map(|&(window, _)| CacheGroup { window }).collect();
    let pages: Vec<usize> = groups.iter().map(|&(_, pages)| pages).collect();
    PageCache::new(&windows, &pages, None, true)
}

/// Runs a sequence from its hit to its end. Returns its pages and the hit.
fn run(kv: &mut PageCache, salt: u64, tokens: &[u32], prompt: usize) -> (SequencePages, usize) {
    let (mut pages, hit) = kv.lookup(salt, tokens, prompt);
    for position in (hit..tokens.len()).step_by(PAGE) {
        kv.slide(&mut pages, position);
        kv.grow(&mut pages, (position + PAGE).min(tokens.len())).unwrap();
        pages.mark_sent();
        kv.commit(&mut pages, tokens, prompt, (position + PAGE).min(tokens.len()));
    }
    (pages, hit)
}

fn check(kv: &PageCache, sequences: &[&SequencePages]) {
    kv.check(sequences.iter().copied()).unwrap();
}

#[test]
fn a_prefix_is_shared_and_a_token_is_left_to_run() {
    let mut kv = cache(&[(None, 20)]);
    let long = tokens(4, 1);
    let (mut a, hit) = run(&mut kv, 0, &long, long.len());
    assert_eq!(hit, 0);
    // the same, as long as the pages are full: one token is left
    let (mut b, hit) = kv.lookup(0, &long, long.len());
    assert_eq!((hit, b.tables[0].pages.as_slice()), (256, &a.tables[0].pages[..4]));
    let (mut c, hit) = kv.lookup(0, &long[..4 * PAGE], 4 * PAGE);
    assert_eq!(hit, 192);
    let mut other = long.clone();
    other[130] = 7;
    let (mut d, hit) = kv.lookup(0, &other, other.len());
    assert_eq!(hit, 128);
    let (mut e, hit) = kv.lookup(1, &long, long.len());
    assert_eq!(hit, 0);
    check(&kv, &[&a, &b, &c, &d, &e]);
    for pages in [&mut a, &mut b, &mut c, &mut d, &mut e] {
        kv.release(pages);
        kv.release(pages);
    }
    check(&kv, &[]);
    assert_eq!((kv.counts()[0].cached, kv.counts()[0].free), (4, 16));
}

#[test]
fn two_that_compute_the_same_end_with_one_copy() {
    let mut kv = cache(&[(None, 20)]);
    let long = tokens(2, 1);
    let (mut a, _) = kv.lookup(0, &long, long.len());
    let (mut b, _) = kv.lookup(0, &long, long.len());
    kv.grow(&mut a, long.len()).unwrap();
    kv.grow(&mut b, long.len()).unwrap();
    b.mark_sent();
    kv.commit(&mut a, &long, long.len(), 128);
    kv.commit(&mut b, &long, long.len(), 128);
    assert_eq!(a.tables[0].pages[..2], b.tables[0].pages[..2]);
    assert_ne!(a.tables[0].pages[2], b.tables[0].pages[2]);
    // the executable gets the changed entries again
    assert_eq!(b.tables[0].unsent(), Some((0, &b.tables[0].pages[..])));
    check(&kv, &[&a, &b]);
    assert_eq!(kv.counts()[0].cached, 2);
    assert_eq!(kv.counts()[0].private, 2);
}

#[test]
fn leaves_are_evicted_first_and_held_pages_never() {
    let mut kv = cache(&[(None, 6)]);
    let (old, new) = (tokens(2, 1), tokens(2, 2));
    let (mut a, _) = run(&mut kv, 0, &old, old.len());
    let (mut b, _) = run(&mut kv, 0, &new, new.len());
    assert_eq!(kv.grow(&mut b, 4 * PAGE), Err(OutOfPages));
    check(&kv, &[&a, &b]);
    kv.release(&mut a);
    // the free one, then the second page of the first sequence
    kv.grow(&mut b, 5 * PAGE).unwrap();
    check(&kv, &[&b]);
    let (mut again, hit) = kv.lookup(0, &old, old.len());
    assert_eq!(hit, PAGE);
    assert_eq!(kv.grow(&mut b, 6 * PAGE), Err(OutOfPages));
    kv.release(&mut again);
    kv.grow(&mut b, 6 * PAGE).unwrap();
    assert_eq!(kv.lookup(0, &old, old.len()).1, 0);
}

#[test]
fn pages_of_generated_tokens_are_hit_by_their_own_split_only() {
    let mut kv = PageCache::new(&[CacheGroup { window: None }], &[20], None, false);
    let text = tokens(3, 1);
    let (mut a, _) = run(&mut kv, 0, &text, 100);
    // the page that the prompt ends in and the one after it were not run as a prompt
    assert_eq!(kv.lookup(0, &text, text.len()).1, 64);
    assert_eq!(kv.lookup(0, &text, 101).1, 64);
    assert_eq!(kv.lookup(0, &text, 100).1, 192);
    kv.release(&mut a);
}

#[test]
fn a_windowed_group_holds_its_window_and_decides_hits() {
    let window = 100;
    let mut kv = cache(&[(None, 40), (Some(window), 8)]);
    let text = tokens(6, 1);
    let (mut a, _) = run(&mut kv, 0, &text, text.len());
    // position 384 sees 285 to 384
    assert_eq!((a.tables[1].held_from, a.tables[1].held().len()), (4, 3));
    assert_eq!(kv.counts()[1].cached, 6);
    check(&kv, &[&a]);
    kv.release(&mut a);
    let (mut b, hit) = kv.lookup(0, &text, text.len());
    assert_eq!((hit, b.tables[1].held_from), (384, 4));
    kv.release(&mut b);
    // six pages of another text evict the windowed pages that were left first, whatever their node
    let other = tokens(4, 2);
    let (mut c, _) = run(&mut kv, 0, &other, other.len());
    check(&kv, &[&c]);
    let (mut b, hit) = kv.lookup(0, &text, text.len());
    assert_eq!(hit, 384, "the newest pages are kept");
    kv.release(&mut b);
    kv.release(&mut c);
    let (mut d, _) = run(&mut kv, 0, &tokens(10, 3), 641);
    let (mut b, hit) = kv.lookup(0, &text, text.len());
    assert_eq!(hit, 0, "without the windowed pages the others are of no use");
    check(&kv, &[&b, &d]);
    kv.release(&mut b);
    kv.release(&mut d);
    // computed again, the windowed pages go to the nodes that are there
    let (mut e, _) = run(&mut kv, 0, &text, text.len());
    check(&kv, &[&e]);
    kv.release(&mut e);
    assert_eq!(kv.lookup(0, &text, text.len()).1, 384);
}

#[test]
fn only_windowed_groups() {
    let mut kv = cache(&[(Some(64), 5)]);
    for round in 0..20 {
        let text = tokens(7, round % 3);
        let (mut a, _) = run(&mut kv, u64::from(round % 2), &text, text.len());
        check(&kv, &[&a]);
        kv.release(&mut a);
        check(&kv, &[]);
    }
}
