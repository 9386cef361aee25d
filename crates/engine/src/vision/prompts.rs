//! A tower as callers need it: prompts with pictures become tokens.

use std::sync::{Arc, Mutex, PoisonError};

use pelton_chat::Segment;
use pelton_graph::VisionTower;
use pelton_image::{Grid, Job, Limits, Picture, Prepared, Preprocessor};
use pelton_tokenizer::Tokenizer;

use super::{
    identities::Identities,
    joining::Joining,
    pictures::{Block, Pictures},
    seen::{Seen, key},
};
use crate::{Error, chat};

/// The tokens of a prompt, and its pictures.
#[derive(Debug)]
pub(crate) struct Tokenized {
    pub(crate) tokens: Vec<u32>,
    pub(crate) pictures: Option<Box<Pictures>>,
}

/// A tower as callers need it.
#[derive(Debug)]
pub(crate) struct Vision {
    pub(super) joining: Joining,
    pub(super) tower: Arc<VisionTower>,
    pub(super) preprocessor: Arc<Preprocessor>,
    /// The token of rows of pictures, where a token is read.
    pub(super) stand_in: u32,
    /// The id of the mark.
    pub(super) mark: u32,
    /// Whether rows of a picture see each other.
    pub(super) is_whole: bool,
    /// Whether rows of a picture have coordinates of two axes.
    pub(super) has_axes: bool,
    /// The most embeddings of a picture.
    pub(super) most: usize,
    /// Positions of a sequence.
    pub(super) context: usize,
    pub(super) identities: Mutex<Identities>,
}

impl Vision {
    /// The text that stands for a picture in the prompts of the chat template.
    pub(crate) fn placeholder(&self) -> &'static str {
        self.joining.placeholder
    }

    /// The tokens of a rendered chat with pictures.
    ///
    /// # Errors
    ///
    /// [`Error::Picture`] if the tower cannot take one of them; as for texts otherwise.
    pub(crate) fn tokens(
        &self,
        tokenizer: &Tokenizer,
        segments: &[Segment],
        images: &[Arc<Picture>],
    ) -> Result<Tokenized, Error> {
        // before a picture is resized: the patches of all take far more memory than their files
        let mut rows = 0;
        for (i, image) in images.iter().enumerate() {
            rows += self.rows(&name(i), image)?;
        }
        if rows > self.context {
            return Err(Error::PromptTooLong { tokens: rows, context: self.context });
        }
        let seen = images.iter().enumerate().map(|(i, image)| self.see(&name(i), image));
        let seen = seen.collect::<Result<Vec<_>, _>>()?;
        let (mut texts, mut runs) = (Vec::with_capacity(segments.len()), Vec::new());
        for segment in segments {
            let Some(picture) = segment.image else {
                texts.push(segment.clone());
                continue;
            };
            let of = seen
                .get(picture)
                .ok_or(Error::PictureCount { found: images.len(), expected: picture + 1 })?;
            let written = self.joining.write(&of.prepared);
            let mut first = 0;
            for rows in written.runs {
                runs.push((picture, first, rows));
                first += rows;
            }
            texts.push(Segment { text: written.text, control_tokens: true, image: None });
        }
        let mut runs = runs.into_iter();
        let (mut tokens, mut blocks) = (Vec::new(), Vec::new());
        for token in chat::encode(tokenizer, &texts)? {
            if token != self.mark {
                tokens.push(token);
                continue;
            }
            if self.joining.is_kept {
                tokens.push(token);
            }
            let (picture, first, rows) = runs.next().ok_or_else(|| self.marks())?;
            let start = tokens.len();
            tokens.resize(start + rows, self.stand_in);
            let grid = self.has_axes.then(|| self.grid(&seen[picture].prepared)).flatten();
            blocks.push(Block { rows: start..start + rows, picture, first, grid });
        }
        if runs.next().is_some() {
            return Err(self.marks());
        }
        let width = (1 + self.tower.deepstack) * self.tower.width;
        let pictures = Pictures::new(seen, blocks, &tokens, self.is_whole, width);
        Ok(Tokenized { tokens, pictures: Some(Box::new(pictures)) })
    }

    /// A vocabulary that does not have the marks of a picture as control tokens.
    fn marks(&self) -> Error {
        Error::PictureMark { mark: self.joining.mark }
    }

    /// The grid of embeddings of a picture that is one.
    fn grid(&self, prepared: &Prepared) -> Option<[u32; 2]> {
        let &[Grid { rows, columns, merge }] = prepared.grids.as_slice() else { return None };
        Some([rows / merge, columns / merge])
    }

    /// The rows of a picture, by its size.
    fn rows(&self, name: &str, picture: &Picture) -> Result<usize, Error> {
        let tokens = self.preprocessor.plan(picture.width(), picture.height(), name)?.tokens();
        match tokens > self.most {
            true => Err(Error::PictureTokens { name: name.to_owned(), tokens, most: self.most }),
            false => Ok(tokens),
        }
    }

    fn see(&self, name: &str, picture: &Picture) -> Result<Arc<Seen>, Error> {
        let job = Job::new(name, Limits::default(), &|| false);
        let prepared = self.preprocessor.prepare(picture, &job)?;
        let key = key(&prepared);
        let rows = u32::try_from(prepared.tokens).unwrap_or(u32::MAX);
        let identities = &mut *self.identities.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::new(Seen { key, numbers: identities.of(&key, rows), prepared }))
    }
}

/// The name of picture `index` in errors.
fn name(index: usize) -> String {
    format!("picture {}", index + 1)
}
