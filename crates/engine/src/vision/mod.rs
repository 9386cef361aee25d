//! Pictures in prompts: from decoded pictures to the rows of a sequence, and their embeddings.
//!
//! ```text
//! caller's thread   Picture ─► Shown (key; patches or newest embeddings) ─► tokens, rows of pictures
//! model's thread    Shown ─► Eyes (tower, projector; newest embeddings) ─► rows of passes
//! ```
//!
//! | module | content |
//! |---|---|
//! | `joining` | the table of families: the texts around the rows of a picture |
//! | `shown` | a picture of a sequence, and its key |
//! | `held` | the bound of the patches that wait for the tower |
//! | `identities` | numbers for the rows of pictures, by which cached prefixes are found |
//! | `pictures` | the rows of pictures in one sequence: their places and embeddings |
//! | `prompts` | a tower as callers need it: prompts with pictures become tokens |
//! | `newest` | the embeddings of the pictures that were seen last |
//! | `eyes` | the loaded tower, on the thread of the model |
//! | `load` | both from a checkpoint |
//!
//! A row of a picture has no token. In place of one, the prefix tree sees a number of its own for
//! each row of each distinct picture, so pictures that differ in one pixel share no page.

mod eyes;
mod held;
mod identities;
mod joining;
mod load;
mod newest;
mod pictures;
mod prompts;
mod shown;

pub(crate) use eyes::Eyes;
pub(crate) use load::{OpenTower, open};
pub(crate) use pictures::Pictures;
pub(crate) use prompts::{Tokenized, Vision};
