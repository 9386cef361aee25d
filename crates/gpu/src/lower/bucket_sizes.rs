//! The products of steps with sorted buckets, and the memory that they need.

use pelton_graph::{Error, Plan};

use crate::{
    kernels::buckets::{Buckets, GRID_ROWS, SIDES, Side},
    lower::effort_sizes::StepProducts,
    weights::{buckets_of, has_buckets},
};

/// The indices of the marked matrices of a step that run in one product.
pub(super) fn groups(products: &StepProducts<'_>, plan: &Plan) -> Vec<Vec<usize>> {
    let marked = |&i: &usize| plan.weight(products.linears[i].weight).effort;
    let all: Vec<usize> = (0..products.linears.len()).filter(marked).collect();
    all.chunks(SIDES).map(<[usize]>::to_vec).collect()
}

/// The product of a group for rows of decoding.
///
/// # Errors
/// [`Error::Effort`] for matrices without buckets.
pub(super) fn product(
    products: &StepProducts<'_>,
    plan: &Plan,
    group: &[usize],
) -> Result<Buckets, Error> {
    let side = |&i: &usize| {
        let linear = products.linears[i];
        let shape = buckets_of(plan, plan.weight(linear.weight))?;
        Ok(Side { shape, bias: linear.bias.is_some() })
    };
    Ok(Buckets {
        sides: group.iter().map(side).collect::<Result<_, Error>>()?,
        norm: products.norm.map(|norm| norm.eps),
        add: products.add,
        apart: false,
        glu: products.gating.copied(),
        lives_at: [0, 1],
        on_grid: true,
    })
}

/// Elements of the partial sums of passes of up to `rows` rows, at most of any step.
pub(super) fn partial_len(plan: &Plan, rows: usize) -> usize {
    if !has_buckets(plan) {
        return 0;
    }
    let of = |products: StepProducts<'_>| {
        let groups = groups(&products, plan);
        let len = |group: &Vec<usize>| {
            let product = product(&products, plan, group).ok()?;
            let alone = Buckets { on_grid: false, ..product.clone() };
            let on_grid = GRID_ROWS.min(rows) * product.partial_len();
            Some(on_grid.max(rows * alone.partial_len()))
        };
        groups.iter().filter_map(len).max().unwrap_or(0)
    };
    plan.steps.iter().filter_map(StepProducts::of).map(of).max().unwrap_or(0)
}
