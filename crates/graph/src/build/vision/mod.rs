//! Vision towers: plans over a checkpoint of their own (`Checkpoint::open_tower`).
//!
//! A tower turns the patches of a picture into states, and its projector makes embeddings of the
//! text model from these. Squares of patches become one embedding, so the host folds or pools the
//! states between the two plans.
//!
//! | module | content |
//! |---|---|
//! | `family` | the table of towers |
//! | `sizes` | the numbers of a file |
//! | `steps` | buffers and steps |
//! | `layers` | steps of the tower |
//! | `projector` | steps of the projector |
//! | `plans` | both plans of a file |
//! | `places` | tables of positions, for a picture's own grid |
//! | `windows` | windows of attention |
//! | `input` | what the passes of a picture read |

mod family;
mod input;
mod layers;
mod places;
mod plans;
mod projector;
mod sizes;
mod steps;
mod windows;

pub use family::TowerFamily;
pub use input::TowerInput;
pub use plans::{VisionTower, build_tower};
