//! Files of pictures for messages.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use pelton::chat::{ChatTemplate, IMAGE_BYTES_MAX, IMAGES_MAX, Message};

/// The options of pictures.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ImageArgs {
    /// Show the model a picture before the text of the first message; may be given several times,
    /// and commas separate files
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(crate) image: Vec<PathBuf>,
}

impl ImageArgs {
    /// The bytes of the files.
    ///
    /// # Errors
    /// If there are too many, or one cannot be read.
    pub(crate) fn read(&self) -> Result<Vec<Vec<u8>>> {
        if self.image.len() > IMAGES_MAX {
            bail!("found {} of --image, expected at most {IMAGES_MAX}", self.image.len());
        }
        self.image.iter().map(|path| read(path)).collect()
    }
}

/// The bytes of a picture's file.
///
/// # Errors
/// If it cannot be read, or is too large.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("{name} could not be read"))?;
    let mut bytes = Vec::new();
    file.take(IMAGE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("{name} could not be read"))?;
    if bytes.len() > IMAGE_BYTES_MAX {
        bail!("{name} has more than {IMAGE_BYTES_MAX} bytes, the limit of a picture");
    }
    Ok(bytes)
}

/// A message of the user, with pictures before its text.
pub(crate) fn message(text: &str, images: &[Vec<u8>]) -> Message {
    match images.is_empty() {
        true => Message::new("user", text),
        false => Message::with_images("user", text, images),
    }
}

/// Refuses pictures for a model that takes none.
///
/// # Errors
/// If there are any.
pub(crate) fn check(images: &[Vec<u8>], template: Option<&ChatTemplate>) -> Result<()> {
    if images.is_empty() {
        return Ok(());
    }
    match template {
        None => bail!("--image needs a chat template, expected a model with one and no --raw"),
        Some(template) if !template.takes_images() => bail!(
            "the model was loaded without an encoder of pictures, expected its mmproj GGUF file in \
             the folder of the model file"
        ),
        Some(_) => Ok(()),
    }
}
