//! Every op of the fast path compared with the reference path.

use pelton_cpu::Cpu;
use pelton_testing::ops;

#[test]
fn every_op_equals_its_reference() {
    let outcome = ops::check(&Cpu::new(3), &Cpu::reference());
    assert!(outcome.compared > 200, "only {} plans were compared", outcome.compared);
    assert!(outcome.refused.is_empty(), "{outcome:?}");
    let gpu_alone = ["rope_attend", "expert_sum_add"];
    assert!(outcome.skipped.iter().all(|(op, _)| gpu_alone.contains(op)), "{outcome:?}");
}

/// The choice of experts, whose code both paths share, against a form of its own.
#[test]
fn experts_are_chosen_by_the_formula() {
    ops::check_routes(&Cpu::reference());
    ops::check_routes(&Cpu::new(2));
}

/// A row's result depends neither on the other rows of a pass nor on the number of threads.
#[test]
fn every_op_has_the_bits_of_a_row_alone() {
    ops::check_bits(&[&Cpu::new(2), &Cpu::new(1), &Cpu::new(5)]);
}
