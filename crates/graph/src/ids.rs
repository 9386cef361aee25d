//! The indices by which ops and steps name what a plan holds.

/// An index into [`Plan::weights`](crate::Plan::weights).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WeightId(pub usize);

/// An index into [`Plan::buffers`](crate::Plan::buffers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub usize);

/// An index into [`Plan::ropes`](crate::Plan::ropes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RopeId(pub usize);
