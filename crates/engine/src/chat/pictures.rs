//! The pictures of a chat, decoded.

use std::sync::Arc;
use std::time::Instant;

use pelton_chat::{Chat, Error};
use pelton_image::{Job, Limits};

use crate::api::PromptImage;

/// The most pixels of all pictures of a chat.
const PIXELS: u64 = 128_000_000;

/// The refusal of pictures.
pub(crate) const NO_VISION: &str = "the chat has a picture, but the model was loaded without an encoder of pictures, expected its \
     mmproj GGUF file in the folder of the model file";

/// Decodes the pictures of a chat, in their order. The bounds of time and pixels are those of all
/// of them together.
///
/// # Errors
/// If there are too many, or one is not supported, damaged or beyond a limit.
pub(super) fn decode(chat: &Chat) -> Result<Vec<PromptImage>, Error> {
    let (begun, mut left) = (Instant::now(), PIXELS);
    let all = Limits::default();
    let mut pictures = Vec::new();
    let details = chat.details()?;
    for (i, (file, detail)) in chat.images()?.into_iter().zip(details).enumerate() {
        let time = all.time.saturating_sub(begun.elapsed());
        let limits = Limits { pixels: all.pixels.min(left), time, ..all };
        let name = format!("picture {}", i + 1);
        let picture = pelton_image::decode(&file, &Job::new(&name, limits, &|| false))
            .map_err(|error| Error::Invalid(error.to_string()))?;
        left = left.saturating_sub(u64::from(picture.width()) * u64::from(picture.height()));
        pictures.push(PromptImage { picture: Arc::new(picture), detail });
    }
    Ok(pictures)
}
