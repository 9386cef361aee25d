//! Requests that fuzzing found, or begins with: each gets a response.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

#[path = "common/case.rs"]
mod case;

use std::{collections::BTreeMap, fs, path::Path};

use case::Subject;

#[test]
fn requests_of_the_corpus_get_responses() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/http");
    let mut subject = Subject::start().unwrap();
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        if let Some(answer) = subject.exercise(&fs::read(path).unwrap()) {
            *statuses.entry(answer.status).or_default() += 1;
        }
    }
    // the corpus has requests that are answered, and requests that are refused
    assert!(statuses.get(&200) >= Some(&20) && statuses.get(&400) >= Some(&5), "{statuses:?}");
    let health = subject.exercise(b"GET /health\n\n").unwrap();
    assert_eq!(health.status, 200);
}
