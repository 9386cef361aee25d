//! The options of a load: their values, the table of their names, and their values as text.

mod metadata;
mod options;
mod placement;
mod table;
mod values;

pub use metadata::{MetadataChange, RopeOptions, RopeScaling};
pub(crate) use options::ProgressCallback;
pub use options::{DraftSource, KvMemory, LoadOptions, LoadProgress, Lora};
pub use placement::{HostLayers, PlacementOptions};
pub use table::{LoadGroup, LoadKind, LoadOption};
pub(crate) use table::{ROWS_MAX, SEQUENCES_MAX};
