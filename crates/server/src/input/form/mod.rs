//! Forms with a file (`multipart/form-data`): texts become fields, the file stays in blocks.

mod blocks;
mod disposition;
mod frames;
mod texts;

use axum::{
    extract::Request,
    http::{HeaderValue, StatusCode, header},
};
use multer::Multipart;

use self::{
    blocks::Blocks,
    disposition::names,
    frames::{Frames, Taken},
    texts::{Texts, shown},
};
use super::{Bodies, Fields, Held, body::plain};
use crate::{config::Limits, error::ApiError};

/// The most bytes of a text in a form.
const TEXT: usize = 64 << 10;
/// The most parts of a form.
const PARTS: usize = 64;
/// Bytes that a form may have besides its file.
const BESIDES: usize = 1 << 20;
/// The part that is the file, with a file name or without.
const FILE: &str = "file";
/// The longest boundary, as RFC 2046 limits it.
const BOUNDARY: usize = 70;

/// A file within a form.
#[derive(Debug)]
pub(crate) struct FormFile {
    /// The name that the client gives it, cut for messages.
    pub(crate) name: String,
    pub(crate) bytes: Blocks,
}

/// The parts of a form.
#[derive(Debug)]
pub(crate) struct Form {
    fields: Fields,
    file: Option<FormFile>,
}

impl Form {
    /// Reads a form whose file has the name `file`, and the memory that it takes. A wrong form is
    /// read to its end all the same, as many clients look for a response after their body.
    ///
    /// # Errors
    ///
    /// If it is no sound form, has a part twice or one that is too long, or does not come in time.
    pub(crate) async fn read(
        request: Request,
        bodies: &Bodies,
        limits: &Limits,
    ) -> Result<(Self, Held), ApiError> {
        plain(&request)?;
        let boundary = boundary(&request)?;
        let most = limits.audio_bytes.saturating_add(BESIDES);
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > most as u64) {
            return Err(too_large(limits.audio_bytes));
        }
        let mut frames = Frames::new(request.into_body(), most, limits);
        let mut held = Held::of_file();
        let taken = frames.taken.clone();
        let multipart = Multipart::new(&mut frames, boundary);
        let outcome = parts(multipart, &taken, bodies, limits, &mut held).await;
        match outcome {
            Ok(form) => Ok((form, held)),
            Err(error) => {
                drop(held);
                Err(frames.end(error).await)
            }
        }
    }

    /// The texts, as fields of JSON: `a[]` is a list, `a[b]` an object.
    pub(crate) fn fields(&mut self) -> &mut Fields {
        &mut self.fields
    }

    /// The file, once.
    pub(crate) fn file(&mut self) -> Result<FormFile, ApiError> {
        let missing = || self.fields.missing(FILE, "an audio file as a part of the form");
        self.file.take().ok_or_else(missing)
    }
}

/// The boundary between the parts.
fn boundary(request: &Request) -> Result<String, ApiError> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default();
    if !kind.to_ascii_lowercase().starts_with("multipart/form-data") {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body has another content type, expected multipart/form-data",
        ));
    }
    let boundary = multer::parse_boundary(kind).ok();
    boundary.filter(|text| (1..=BOUNDARY).contains(&text.len())).ok_or_else(|| {
        ApiError::invalid(
            "the content type has no boundary, expected multipart/form-data; boundary=TEXT of at most \
             70 characters",
        )
    })
}

fn too_large(limit: usize) -> ApiError {
    let message = format!("the file is too large, expected at most {limit} bytes");
    ApiError {
        param: Some("file".to_owned()),
        ..ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }
}

/// Reads all parts.
async fn parts(
    mut multipart: Multipart<'_>,
    taken: &Taken,
    bodies: &Bodies,
    limits: &Limits,
    held: &mut Held,
) -> Result<Form, ApiError> {
    let (mut texts, mut file, mut count) = (Texts::default(), None, 0);
    while let Some(mut field) = multipart.next_field().await.map_err(broken)? {
        taken.reset();
        count += 1;
        if count > PARTS {
            return Err(ApiError::invalid(format!("the form has more than {PARTS} parts")));
        }
        let disposition = field.headers().get(header::CONTENT_DISPOSITION);
        let names = names(disposition.map(HeaderValue::as_bytes).unwrap_or_default());
        let Some(name) = names.field else {
            return Err(ApiError::invalid("a part of the form has no name"));
        };
        if name != FILE {
            let mut text = Vec::new();
            while let Some(bytes) = field.chunk().await.map_err(broken)? {
                taken.reset();
                if text.len() + bytes.len() > TEXT {
                    let message =
                        format!("{} is too long, expected at most {TEXT} bytes", shown(&name));
                    return Err(ApiError::field(shown(&name), message));
                }
                text.extend_from_slice(&bytes);
            }
            texts.add(&name, text)?;
            continue;
        }
        // some clients give the file no name
        let of_file = names.file.filter(|name| !name.is_empty()).unwrap_or(name);
        if file.is_some() {
            let message = "the form has two parts named file, expected one file";
            return Err(ApiError::field("file", message));
        }
        let mut blocks = Blocks::default();
        while let Some(bytes) = field.chunk().await.map_err(broken)? {
            taken.reset();
            if blocks.len().saturating_add(bytes.len()) > limits.audio_bytes {
                return Err(too_large(limits.audio_bytes));
            }
            bodies.grow_file(held, blocks.memory_with(bytes.len())).await?;
            blocks.extend(&bytes);
        }
        file = Some(FormFile { name: shown(&of_file), bytes: blocks });
    }
    Ok(Form { fields: texts.fields(), file })
}

/// An error of the parser, or the one that the frames had.
fn broken(error: multer::Error) -> ApiError {
    use multer::Error as E;
    match error {
        E::StreamReadFailed(error) => match error.downcast::<ApiError>() {
            Ok(error) => *error,
            Err(error) => ApiError::invalid(format!("the body could not be read: {error}")),
        },
        E::IncompleteStream | E::IncompleteFieldData { .. } | E::IncompleteHeaders => {
            ApiError::invalid(
                "the form is incomplete: a boundary of the content type is missing in the body",
            )
        }
        _ => ApiError::invalid(
            "the headers of a part are no headers of HTTP, expected at most 32 lines NAME: VALUE",
        ),
    }
}
