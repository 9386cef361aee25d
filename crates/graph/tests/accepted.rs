//! The refusal of plans with ops that a backend does not accept.

#![allow(clippy::unwrap_used, reason = "tests fail by panic")]

use std::sync::Arc;

use pelton_graph::{Backend, Error, Executable, Limits, Needs, Op, Plan, build};
use pelton_testing::ModelSpec;
use pelton_weights::Checkpoint;

/// Accepts all ops but those of one name: of stores only that of one cache is refused.
struct Without {
    name: &'static str,
    cache: usize,
}

impl Backend for Without {
    fn name(&self) -> &str {
        "abacus"
    }

    fn accepts(&self, op: &Op, _: &Plan) -> bool {
        let of_cache = match op {
            Op::Store { cache } => *cache == self.cache,
            _ => true,
        };
        op.name() != self.name || !of_cache
    }

    fn needs(&self, _: &Plan, _: &Limits) -> Result<Needs, Error> {
        Ok(Needs::default())
    }

    fn load(
        &self,
        plan: Plan,
        _: Arc<Checkpoint>,
        _: Limits,
        _: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        plan.check_accepted(self)?;
        Err(Error::Profile)
    }
}

fn refusal(name: &'static str, cache: usize) -> String {
    let plan = build(&ModelSpec::default().checkpoint()).unwrap();
    let error = plan.check_accepted(&Without { name, cache }).unwrap_err();
    assert!(matches!(error, Error::Op { .. }), "{error}");
    error.to_string()
}

#[test]
fn an_op_is_refused_by_name_and_layer() {
    let store =
        |layer| format!("'abacus' cannot run the op 'store       k v → kv' of layer {layer}");
    assert_eq!(refusal("store", 0), store(0));
    assert_eq!(refusal("store", 1), store(1));
    // the first of two
    let text = refusal("glu", 0);
    assert!(text.contains("'glu ") && text.ends_with("of layer 0"), "{text}");
}

#[test]
fn an_op_outside_of_layers_is_refused_by_name() {
    let text = refusal("select", 0);
    assert!(text.contains("'select ") && !text.contains("layer"), "{text}");
}

#[test]
fn a_plan_of_accepted_ops_is_accepted() {
    let plan = build(&ModelSpec::default().checkpoint()).unwrap();
    plan.check_accepted(&Without { name: "norm_glu", cache: 0 }).unwrap();
}
