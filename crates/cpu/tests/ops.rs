//! Every op of the fast path compared with the reference path.

use pelton_cpu::Cpu;
use pelton_testing::ops;

#[test]
fn every_op_equals_its_reference() {
    let outcome = ops::check(&Cpu::new(3), &Cpu::reference());
    assert!(outcome.compared > 200, "only {} plans were compared", outcome.compared);
    assert!(outcome.skipped.iter().all(|(op, _)| *op == "rope_attend"), "{outcome:?}");
}
