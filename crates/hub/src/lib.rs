//! Models by name: parsed, found on this machine, downloaded, verified and removed.
//!
//! A [`Reference`] is a name as users write it. A [`Hub`] finds it on this machine, or plans and
//! runs its download. The cache is that of Python's `huggingface_hub`, so both use each other's
//! files. All calls block; a download runs on threads of its own.
//!
//! ```no_run
//! use pelton_hub::{Cancel, Hub, Reference, Settings};
//!
//! # fn main() -> Result<(), pelton_hub::Error> {
//! let hub = Hub::new(Settings::from_environment()?)?;
//! let reference: Reference = "Qwen/Qwen3-0.6B-GGUF:Q8_0".parse()?;
//! let report = &mut |p: &pelton_hub::Progress| eprintln!("{} of {} bytes", p.done, p.total);
//! let model = hub.get(&reference, None, report, &Cancel::default())?;
//! println!("{}", model.path.display());
//! # Ok(())
//! # }
//! ```
//!
//! `name/` has names as users write them, `cache.rs` the cache's layout, `choose.rs` the files that
//! make a model. `http.rs` and `listing.rs` ask the hub, through `proxy.rs` and with the trust of
//! `certificates.rs`. `address.rs` resolves redirects, `refusal.rs` explains a status, and
//! `pace.rs` has the least rate of a body. `download/` gets one file: pieces, journal, connections,
//! hash, rename. `local/` reads the folders of other programs, and `pull.rs` joins them.
//!
//! Everything that a host sends is checked before it is used: names of files, entity tags,
//! redirects, sizes, ranges and hashes. The token of the hub goes to the hub's own host alone.

mod address;
mod cache;
mod cancel;
mod certificates;
mod choose;
mod download;
mod error;
mod failure;
mod http;
mod listing;
mod local;
mod name;
mod pace;
mod proxy;
mod pull;
mod refusal;
mod settings;
// for fuzzing; not a stable interface
#[doc(hidden)]
pub mod untrusted;

pub use cancel::Cancel;
pub use download::{Phase, Progress};
pub use error::{Error, Result};
pub use local::{Folder, Model, Place, Removed, projector_of_blob};
pub use name::{
    FileName, Part, Reference, Repository, RepositoryReference, Revision, ShortName, Spelling, Tag,
    UrlReference, short_names,
};
pub use pull::{Hub, Plan};
pub use settings::{Settings, Token, Towers};
