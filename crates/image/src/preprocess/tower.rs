//! The sides of a tower's patches, and fields that repeat them.

use super::fields::Fields;
use super::size::Size;
use crate::ImageError;

/// The sides that the tower of a model fixes, from the model's own file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tower {
    /// Pixels of a side of a patch.
    pub patch: u32,
    /// Patches of a side of the square that becomes one embedding.
    pub merge: u32,
}

impl Tower {
    /// Pixels of a side of the square that becomes one embedding.
    pub(super) fn square(self) -> u32 {
        self.patch * self.merge
    }

    /// Whether a fixed size has whole embeddings.
    pub(super) fn check_multiple(
        self,
        fields: &Fields<'_>,
        key: &str,
        size: Size,
    ) -> Result<(), ImageError> {
        let square = self.square();
        if size.width.is_multiple_of(square) && size.height.is_multiple_of(square) {
            return Ok(());
        }
        let Size { width, height } = size;
        let problem = format!("its field {key} is {width} x {height}");
        Err(fields.error(format!("{problem}: expected multiples of {square}, for {self:?}")))
    }
}

/// Compares a field with the model's number.
pub(super) fn agree(fields: &mut Fields<'_>, key: &str, model: u32) -> Result<(), ImageError> {
    let found = fields.count(key)?;
    same(fields, key, found, model)
}

/// The same, where the field may be missing.
pub(super) fn agree_if_set(
    fields: &mut Fields<'_>,
    key: &str,
    model: u32,
) -> Result<(), ImageError> {
    match fields.square_if_set(key)? {
        Some(found) => same(fields, key, found, model),
        None => Ok(()),
    }
}

fn same(fields: &Fields<'_>, key: &str, found: u32, model: u32) -> Result<(), ImageError> {
    if found == model {
        return Ok(());
    }
    Err(fields.error(format!("its field {key} is {found}: expected {model}, as the model has it")))
}
