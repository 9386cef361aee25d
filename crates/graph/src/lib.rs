//! From hyper-parameters to a plan: the ops, buffers and weights of a forward pass.
//!
//! A [`Plan`] is data. It contains every difference between architectures, so a [`Backend`] never
//! reads a model's name. The data flow through this crate is:
//!
//! 1. [`build()`] reads a checkpoint's keys and tensors and builds a plan of elementary steps by
//!    the table of its architecture in `arch/`;
//! 2. [`Plan::fuse`] replaces sequences of steps by the fused ops that a backend accepts;
//! 3. a [`Backend`] loads the plan into an [`Executable`], which runs it over the rows of a
//!    [`Pass`] and returns tokens or logits as [`Outputs`].

mod arch;
mod backend;
mod build;
mod check;
mod effort;
mod error;
mod fuse;
mod ids;
mod indices;
mod kv;
mod limits;
mod lora;
mod needs;
mod op;
mod pass;
mod phase;
mod plan;
mod print;
mod profile;
mod rates;
mod rope;
mod tables;
mod used;
mod weight;
mod work;

pub use arch::{
    Alibi, Architecture, AttentionScale, Block, Embed, FeedForward, Head, LogitScale, MixerRule,
    Moe, Multipliers, Pattern, PictureMask, Presence, QkNorm, RopeAxes, RopeOff, RopeRule, Temper,
    Window, architectures,
};
pub use backend::{Backend, Executable, HostExecutables, Pipeline, Shared};
pub use build::{
    BuildOptions, PictureRows, PoolingType, TowerFamily, TowerInput, VisionTower, build, build_for,
    build_head, build_tower, build_with,
};
pub use effort::{
    Effort, EffortCurve, EffortForm, EffortOptions, EffortTable, InputScores, LOWER_HALF,
    MatrixScores, ScoreCounts, is_effort_matrix,
};
pub use error::Error;
pub use ids::{BufferId, RopeId, WeightId};
pub use indices::Index;
pub use kv::{KvBlock, KvElement, KvType, PAGE, pages_for};
pub use limits::Limits;
pub use needs::Needs;
pub use op::{
    Activation, Adapters, Attention, ExpertGroups, ExpertLinear, GatedDelta, Gating, Linear, Mask,
    Norm, NormKind, Op, Pooling, RopeStore, Route, Scores, SelectiveScan, ShortConv, Strided,
    StridedCopy, TableRow, Xielu, alibi_slope,
};
pub use pass::{
    Hidden, Input, MAX_REPEAT, Outputs, Pass, Place, RECENT, Ranking, Row, Sample, Ticket, Want,
};
pub use phase::Phase;
pub use plan::{
    Buffer, Cache, CacheGroup, Encoder, HostPart, Injected, OutputKind, Plan, Rows, Shape, State,
    Step, Values,
};
pub use profile::{PartProfile, Profile, StepProfile, Ways};
pub use rates::{LinkRates, Rates};
pub use rope::{Rope, RopeStyle};
pub use tables::{PageTables, TableEdit};
pub use weight::{Part, Weight, WeightKind};
pub use work::{cache_read, used_experts, weights_read};
