//! Every op of the fast path compared with the reference path.

use pelton_cpu::Cpu;
use pelton_testing::ops;

#[test]
fn every_op_equals_its_reference() {
    let outcome = ops::check(&Cpu::new(3), &Cpu::reference());
    assert!(outcome.compared > 200, "only {} plans were compared", outcome.compared);
    // until the fast path has gated products of every kind and of experts
    let later = ["rope_attend", "norm_glu", "expert_glu"];
    assert!(outcome.skipped.iter().all(|(op, _)| later.contains(op)), "{outcome:?}");
}
