//! Code that the targets share.

use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

use pelton_constraint::{Compiler, Constraint, Error};

thread_local! {
    static COMPILER: RefCell<Compiler> =
        RefCell::new(Compiler::of_bytes().expect("a compiler of bytes"));
}

/// Limit of the time of a mask or of a step.
const STEP_MAX: Duration = Duration::from_secs(2);

/// Compiles a constraint and follows it: neither takes long, and none panics.
pub fn follow(constraint: &Constraint) {
    COMPILER.with_borrow(|compiler| {
        let mut matcher = match compiler.compile(constraint) {
            Ok(matcher) => matcher,
            Err(error) => {
                assert!(!matches!(error, Error::Slow | Error::Busy), "{error}");
                assert_eq!(error.to_string().lines().count(), 1, "{error}");
                return;
            }
        };
        for i in 0..30 {
            let begun = Instant::now();
            let Ok(mask) = matcher.mask() else { return };
            let allowed: Vec<u32> = (0..mask.len() as u32 * 32)
                .filter(|id| mask[*id as usize / 32] >> (id % 32) & 1 == 1)
                .collect();
            let next = matcher.consume(allowed[i * 7 % allowed.len()]);
            assert!(begun.elapsed() < STEP_MAX, "a step takes {:?}", begun.elapsed());
            if next.is_err() || matcher.is_stopped() {
                return;
            }
        }
    });
}
