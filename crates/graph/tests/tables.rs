//! Page tables after random edits, compared with tables of one entry per position.

#![allow(clippy::unwrap_used, reason = "tests fail by panic")]

use pelton_graph::{Error, KvType, Limits, PAGE, PageTables, TableEdit};
use proptest::{collection::vec, prelude::*};

const SLOTS: usize = 3;
const PAGES: [usize; 2] = [6, 9];
/// Entries of a table: a context of 257 positions needs a fifth page.
const ENTRIES: usize = 5;

fn limits() -> Limits {
    Limits {
        rows: 1,
        wants: 1,
        sequences: SLOTS,
        context: 4 * PAGE + 1,
        pages: PAGES.to_vec(),
        snapshots: 0,
        kv: KvType::F16,
        tokens: 1,
        bias: 0,
    }
}

fn refused(tables: &mut PageTables, edit: TableEdit<'_>) -> String {
    let before = tables.clone();
    let error = tables.apply(&edit).unwrap_err();
    assert_eq!(*tables, before, "{error}");
    assert!(matches!(error, Error::Pass(_)), "{error}");
    error.to_string()
}

#[test]
fn refusals_name_the_value_and_change_nothing() {
    let mut tables = PageTables::new(&limits());
    let good = TableEdit { group: 1, slot: 2, first: 0, pages: &[8, 3] };
    tables.apply(&good).unwrap();
    for (edit, what) in [
        (TableEdit { group: 2, ..good }, "cache group 2 of a page table, expected one of 2"),
        (TableEdit { slot: 3, ..good }, "slot 3 of a page table, expected one of 3"),
        (TableEdit { first: 3, ..good }, "entries 3 to 5 of a page table of 2, expected at most 5"),
        (TableEdit { first: 2, pages: &[0; 4], ..good }, "entries 2 to 6 of a page table of 2"),
        (TableEdit { first: u32::MAX, ..good }, "entries 4294967295 to 4294967297"),
        (TableEdit { pages: &[0, 9], ..good }, "page 9 of a table, expected one of 9"),
        // a page of the other group
        (TableEdit { group: 0, pages: &[6], ..good }, "page 6 of a table, expected one of 6"),
    ] {
        let text = refused(&mut tables, edit);
        assert!(text.contains(what), "{text}");
    }
    assert_eq!(tables.table(1, 2), [8, 3]);
}

proptest! {
    /// Edits of which about half are valid. An accepted one determines the table up to its end, a
    /// refused one changes nothing, and both leave the other tables unchanged.
    #[test]
    fn edits(edits in vec((0..3u32, 0..4u32, 0..7u32, vec(0..8u32, 0..6)), 1..40)) {
        let mut tables = PageTables::new(&limits());
        let mut expected = [[[None; ENTRIES]; SLOTS]; PAGES.len()];
        for (group, slot, first, pages) in edits {
            let outcome = tables.apply(&TableEdit { group, slot, first, pages: &pages });
            let (group, slot, first) = (group as usize, slot as usize, first as usize);
            let table = expected.get_mut(group).and_then(|slots| slots.get_mut(slot));
            let valid = table.is_some()
                && first + pages.len() <= ENTRIES
                && pages.iter().all(|&page| (page as usize) < PAGES[group]);
            match table {
                Some(table) if valid && (first == 0 || table[first - 1].is_some()) => {
                    prop_assert!(outcome.is_ok());
                    for (i, entry) in table.iter_mut().enumerate().skip(first) {
                        *entry = pages.get(i - first).copied();
                    }
                }
                _ => prop_assert!(outcome.is_err()),
            }
            for (group, slots) in expected.iter().enumerate() {
                for (slot, table) in slots.iter().enumerate() {
                    let table: Vec<u32> = table.iter().copied().flatten().collect();
                    prop_assert_eq!(tables.table(group, slot), table);
                }
            }
        }
    }
}
