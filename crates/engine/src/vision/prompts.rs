//! A tower as callers need it: prompts with pictures become tokens.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use pelton_chat::{Detail, Segment};
use pelton_graph::VisionTower;
use pelton_image::{Bounds, Grid, Job, Limits, Plan, Preprocessor};
use pelton_tokenizer::Tokenizer;

use super::{
    held::Held,
    identities::Identities,
    joining::Joining,
    newest::Newest,
    pictures::{Block, Pictures},
    shown::{Form, Key, Shown, key},
};
use crate::{Error, api::PromptImage, chat};

/// The most embeddings of a picture that is looked at with low detail.
const LOW: usize = 256;

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
    /// The embeddings of a picture.
    pub(super) bounds: Bounds,
    /// Positions of a sequence.
    pub(super) context: usize,
    pub(super) identities: Mutex<Identities>,
    /// The patches that wait for the tower.
    pub(super) held: Arc<Held>,
    /// The embeddings of pictures that were seen last.
    pub(super) newest: Arc<Newest>,
}

impl Vision {
    /// The text that stands for a picture in the prompts of the chat template.
    pub(crate) fn placeholder(&self) -> &'static str {
        self.joining.placeholder
    }

    /// The tokens of a rendered chat with pictures. A picture whose embeddings are not known is
    /// resized and cut.
    ///
    /// # Errors
    ///
    /// [`Error::Picture`] if the tower cannot take one of them, [`Error::Busy`] if the pictures of
    /// other requests take too much memory; as for texts otherwise.
    pub(crate) fn tokens(
        &self,
        tokenizer: &Tokenizer,
        segments: &[Segment],
        images: &[PromptImage],
    ) -> Result<Tokenized, Error> {
        let plans = self.plans(images)?;
        let (tokens, blocks) = self.laid_out(tokenizer, segments, &plans)?;
        let known: Vec<_> = images.iter().zip(&plans).map(|of| self.known(of)).collect();
        let bytes = |plan: &Plan, is_known| {
            let patches: usize = plan.grids().iter().map(Grid::patches).sum();
            let count = if is_known { 0 } else { patches };
            count * 3 * (self.tower.patch as usize).pow(2) * size_of::<f32>()
        };
        let sizes = plans.iter().zip(&known).map(|(plan, (_, known))| bytes(plan, known.is_some()));
        let mut hold = self.held.take(sizes.sum())?;
        let mut shown = Vec::with_capacity(images.len());
        for (i, ((image, plan), (key, known))) in images.iter().zip(&plans).zip(known).enumerate() {
            let form = match known {
                Some(embeddings) => Form::Embeddings(embeddings),
                None => {
                    let (name, bytes) = (name(i), bytes(plan, false));
                    let job = Job::new(&name, Limits::default(), &|| false);
                    let prepared = self.preprocessor.prepare(&image.picture, plan, &job)?;
                    Form::Patches { prepared, hold: hold.part(bytes) }
                }
            };
            shown.push(Shown { key, numbers: self.numbers(&key, plan), form });
        }
        let width = (1 + self.tower.deepstack) * self.tower.width;
        let pictures = Pictures::new(shown, blocks, &tokens, self.is_whole, width);
        Ok(Tokenized { tokens, pictures: Some(Box::new(pictures)) })
    }

    /// Those tokens alone. No picture is resized for them.
    ///
    /// # Errors
    ///
    /// As [`tokens`](Self::tokens).
    pub(crate) fn placeholders(
        &self,
        tokenizer: &Tokenizer,
        segments: &[Segment],
        images: &[PromptImage],
    ) -> Result<Vec<u32>, Error> {
        Ok(self.laid_out(tokenizer, segments, &self.plans(images)?)?.0)
    }

    /// The sizes of pictures, before any is resized: the patches of all take far more memory than
    /// their files.
    fn plans(&self, images: &[PromptImage]) -> Result<Vec<Plan>, Error> {
        let mut rows = 0;
        let mut plans = Vec::with_capacity(images.len());
        for (i, image) in images.iter().enumerate() {
            let plan = self.plan(&name(i), image)?;
            rows += plan.tokens();
            plans.push(plan);
        }
        match rows > self.context {
            true => Err(Error::PromptTooLong { tokens: rows, context: self.context }),
            false => Ok(plans),
        }
    }

    /// The tokens of a rendered chat, and the places of its pictures' rows.
    fn laid_out(
        &self,
        tokenizer: &Tokenizer,
        segments: &[Segment],
        plans: &[Plan],
    ) -> Result<(Vec<u32>, Vec<Block>), Error> {
        let (mut texts, mut runs) = (Vec::with_capacity(segments.len()), Vec::new());
        for segment in segments {
            let Some(picture) = segment.image else {
                texts.push(segment.clone());
                continue;
            };
            let of = plans
                .get(picture)
                .ok_or(Error::PictureCount { found: plans.len(), expected: picture + 1 })?;
            let written = self.joining.write(of);
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
            let grid = self.has_axes.then(|| grid(&plans[picture])).flatten();
            blocks.push(Block { rows: start..start + rows, picture, first, grid });
        }
        match runs.next() {
            Some(_) => Err(self.marks()),
            None => Ok((tokens, blocks)),
        }
    }

    /// A vocabulary that does not have the marks of a picture as control tokens.
    fn marks(&self) -> Error {
        Error::PictureMark { mark: self.joining.mark }
    }

    /// The sizes of what the tower sees of a picture.
    fn plan(&self, name: &str, image: &PromptImage) -> Result<Plan, Error> {
        let (picture, bounds) = (&image.picture, self.bounds(image.detail));
        let plan = self.preprocessor.plan(picture.width(), picture.height(), bounds, name)?;
        let (tokens, most) = (plan.tokens(), self.bounds.most);
        match tokens > most {
            true => Err(Error::PictureTokens { name: name.to_owned(), tokens, most }),
            false => Ok(plan),
        }
    }

    /// The embeddings of a picture that is looked at so closely.
    fn bounds(&self, detail: Detail) -> Bounds {
        let Bounds { least, most } = self.bounds;
        match detail {
            Detail::Low => Bounds { least, most: most.min(LOW) },
            Detail::Auto | Detail::High => self.bounds,
            Detail::Original => Bounds::default(),
        }
    }

    /// The key of a picture, and its embeddings if they are known.
    fn known(&self, (image, plan): (&PromptImage, &Plan)) -> (Key, Option<Arc<Vec<f32>>>) {
        let key = key(&image.picture, plan);
        (key, self.newest.get(&key))
    }

    fn numbers(&self, key: &Key, plan: &Plan) -> Option<Range<u32>> {
        let rows = u32::try_from(plan.tokens()).unwrap_or(u32::MAX);
        self.identities.lock().unwrap_or_else(PoisonError::into_inner).of(key, rows)
    }
}

/// The grid of embeddings of a picture that is one.
fn grid(plan: &Plan) -> Option<[u32; 2]> {
    let &[Grid { rows, columns, merge }] = plan.grids().as_slice() else { return None };
    Some([rows / merge, columns / merge])
}

/// The name of picture `index` in errors.
fn name(index: usize) -> String {
    format!("picture {}", index + 1)
}
