//! The parts of a plan: ranges of whole layers, each a plan of its own.

use pelton_graph::{BufferId, Error, Index, Op, Plan, Rows, Step};

/// The layers before which a plan can be cut, ascending: 0 leaves the embedding alone, and the
/// number of layers the output. A cut is legal where the steps after it need nothing but values of
/// all rows: neither a cache nor a recurrent state is used on both sides.
pub fn borders(plan: &Plan) -> Vec<usize> {
    if plan.encoder.is_some() {
        return Vec::new();
    }
    (0..=plan.shape.layers).filter(|&layer| is_legal(plan, first_step(plan, layer))).collect()
}

/// The parts of a plan that is cut before each of some layers, in the order of their steps.
///
/// # Errors
///
/// [`Error::Placement`] naming the layer before which the plan cannot be cut.
pub fn cut(plan: &Plan, layers: &[usize]) -> Result<Vec<Plan>, Error> {
    let legal = borders(plan);
    let mut before = None;
    for layer in layers {
        if !legal.contains(layer) || before >= Some(layer) {
            return Err(Error::Placement(format!(
                "the model cannot be cut before layer {layer}, expected ascending ones of {legal:?}"
            )));
        }
        before = Some(layer);
    }
    let inner = layers.iter().map(|&layer| first_step(plan, layer));
    let steps: Vec<usize> = [0].into_iter().chain(inner).chain([plan.steps.len()]).collect();
    Ok(steps.windows(2).map(|steps| part(plan, steps[0], steps[1])).collect())
}

/// The first step that belongs to a layer or comes after it.
fn first_step(plan: &Plan, layer: usize) -> usize {
    let last = plan.steps.iter().rposition(|step| step.layer.is_some());
    let at = plan.steps.iter().position(|step| step.layer.is_some_and(|of| of >= layer));
    at.or(last.map(|last| last + 1)).unwrap_or(0)
}

fn part(plan: &Plan, begin: usize, end: usize) -> Plan {
    let (is_first, is_last) = (begin == 0, end == plan.steps.len());
    let entry = if is_first { plan.entry.clone() } else { live(plan, begin) };
    let exit = if is_last { plan.exit.clone() } else { live(plan, end) };
    // the adapters of rows are chosen on each device
    let adapters = plan.steps[..begin].iter().filter(|step| matches!(step.op, Op::Adapters(_)));
    let steps = adapters.chain(&plan.steps[begin..end]).cloned().collect();
    let logits = match is_last {
        true => plan.logits,
        false => exit.first().copied().unwrap_or(plan.logits),
    };
    Plan { steps, entry, exit, logits, host: Vec::new(), ..plan.clone() }.keep_used()
}

fn is_legal(plan: &Plan, at: usize) -> bool {
    if at == 0 || at >= plan.steps.len() {
        return false;
    }
    let (before, after) = plan.steps.split_at(at);
    let live = live(plan, at);
    let written = |id: &BufferId| {
        plan.entry.contains(id) || before.iter().any(|step| step.outputs.contains(id))
    };
    let all_rows = |id: &BufferId| plan.buffer(*id).rows == Rows::All;
    let [own, others] = [before, after].map(caches_and_states);
    // steps for wanted rows alone belong to the last part
    let selects = before.iter().any(|step| matches!(step.op, Op::Select | Op::Pool(_)));
    !selects
        && !live.is_empty()
        && live.iter().all(|id| written(id) && all_rows(id))
        && !own.iter().any(|index| others.contains(index))
}

/// The caches and the states that steps use.
pub(crate) fn caches_and_states(steps: &[Step]) -> Vec<(bool, usize)> {
    let mut used = Vec::new();
    for step in steps {
        step.op.clone().visit_indices(&mut |index| match index {
            Index::Cache(at) => used.push((true, *at)),
            Index::State(at) => used.push((false, *at)),
            Index::Weight(_) => {}
        });
    }
    used
}

/// The buffers that steps from `at` on read before they write them, in the plan's order.
pub(crate) fn live(plan: &Plan, at: usize) -> Vec<BufferId> {
    let (mut read, mut written) = (Vec::new(), Vec::new());
    let adapters = plan.steps.iter().filter(|step| matches!(step.op, Op::Adapters(_)));
    written.extend(adapters.flat_map(|step| step.outputs.iter().copied()));
    let mut reads = |ids: &[BufferId], written: &[BufferId]| {
        read.extend(ids.iter().filter(|id| !written.contains(id)).copied());
    };
    for step in &plan.steps[at..] {
        reads(&step.inputs, &written);
        written.extend(step.outputs.iter().copied());
    }
    reads(&[plan.logits], &written);
    reads(&plan.exit, &written);
    read.sort_unstable_by_key(|id| id.0);
    read.dedup();
    read
}
