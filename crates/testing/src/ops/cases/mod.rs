//! The plans: every op, alone and as part of each fused op, at odd shapes.

mod attentions;
mod elements;
mod encoders;
mod experts;
mod linears;
mod masks;
mod norms;
mod pictures;
mod recurrent;

use super::case::Case;

pub(super) fn all() -> Vec<Case> {
    [
        elements::cases(),
        norms::cases(),
        linears::cases(),
        linears::fused(),
        linears::parts(),
        experts::routes(),
        experts::products(),
        recurrent::cases(),
        attentions::ropes(),
        attentions::cases(),
        masks::cases(),
        encoders::cases(),
        pictures::cases(),
    ]
    .concat()
}
