//! Names of models: references as users write them, and the checked parts of which they consist.

mod part;
mod reference;
mod repository;
mod short;
mod spelling;

pub(crate) use part::is_hex;
pub use part::{FileName, Repository, Revision, Tag};
pub use reference::{Reference, UrlReference};
pub(crate) use repository::encoded;
pub use repository::{Part, RepositoryReference};
pub use short::{ShortName, short_names};
pub use spelling::Spelling;
