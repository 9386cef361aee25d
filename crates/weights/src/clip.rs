//! The names of vision towers' files: architecture `clip` of llama.cpp.

use crate::{Keys, Metadata};

/// The architecture of vision towers.
pub(crate) const ARCHITECTURE: &str = "clip";

/// The key of the text of the settings of a directory's pictures. It is Pelton's own.
pub(crate) const SETTINGS: &str = "pelton.vision.settings";
/// The key of the name of the file of that text.
pub(crate) const SETTINGS_FILE: &str = "pelton.vision.settings_file";

/// The projector that joins a tower to a text model, by which its form is known; `None` of a file
/// that is no tower.
///
/// A file with a tower of sounds too names the two apart.
pub(crate) fn projector(metadata: &Metadata) -> Option<&str> {
    let keys = Keys::new(metadata).ok().filter(|keys| keys.architecture() == ARCHITECTURE)?;
    let of = |name| keys.opt_string(name).ok().flatten();
    of("vision.projector_type").or_else(|| of("projector_type"))
}
