//! Vision towers: a second checkpoint next to the text model's.
//!
//! Its architecture is `clip`, and its keys and tensors have the names of llama.cpp's "mmproj"
//! files (`gguf-py` of llama_cpp_python 0.3.36, `Keys.ClipVision` and `V_*`). Such a file and a
//! Hugging Face directory meet here. Both are then brought to the form of plans, see `complete`.
//! The tower of a directory has one key more, with the settings of its pictures.

mod companion;
mod complete;
mod settings;

use std::path::Path;

use bytes::Bytes;

use crate::map::OpenFiles;
use crate::{Checkpoint, Error, Source, clip, folder, hf};

pub use settings::VisionSettings;

impl Checkpoint {
    /// Opens the vision tower of the model at `path`; `None` if it has none.
    ///
    /// The tower of a Hugging Face directory is among its tensors. A GGUF file has it in another
    /// file of its folder, which the contents tell. The path can also be the path of the tower's
    /// file.
    ///
    /// The tensors are in the form of plans. The two frames of a patch are summed, factors of a
    /// branch are part of its last matrix, and matrices have their outputs as rows. A file that is
    /// written of them is not one for other programs; [`open`](Self::open) gives the tensors as
    /// they are.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`Problem::SeveralTowers`](crate::Problem::SeveralTowers) if
    /// two files could be the tower.
    pub fn open_tower(path: impl AsRef<Path>) -> Result<Option<Self>, Error> {
        let opened = stored_tower(path.as_ref())?;
        opened.map(complete::completed).transpose()
    }

    /// Opens the vision tower of the model at `path` in the form of llama.cpp's files, for
    /// [`Conversion`](crate::Conversion); `None` if it has none.
    ///
    /// # Errors
    ///
    /// As [`open_tower`](Self::open_tower). Also if a directory lacks the settings of pictures, or
    /// the tokenizer of Pixtral.
    pub fn open_tower_file(path: impl AsRef<Path>) -> Result<Option<Self>, Error> {
        let Some(mut tower) = stored_tower(path.as_ref())? else { return Ok(None) };
        if tower.source() == Source::HuggingFace {
            tower.vision_settings()?;
            for key in ["clip.vision.image_mean", "clip.vision.image_std"] {
                tower.metadata().f32_array(key)?;
            }
            if clip::projector(tower.metadata()) == Some("pixtral") {
                let folder = Path::new(tower.name()).to_owned();
                let mut files = OpenFiles::default();
                let found = hf::line_break(&folder, &mut files);
                // a file that was cut meanwhile may be any kind of fault
                let files = files.finish()?;
                if let Some(found) = found? {
                    tower.add(found)?;
                    tower.add_files(&files);
                }
            }
        }
        Ok(Some(tower))
    }

    /// The vision tower in the bytes of a GGUF file, in the form that
    /// [`open_tower`](Self::open_tower) gives. `name` stands for the file name in error messages.
    ///
    /// # Errors
    ///
    /// As [`from_bytes`](Self::from_bytes).
    pub fn tower_from_bytes(name: &str, bytes: impl Into<Bytes>) -> Result<Self, Error> {
        complete::completed(Self::from_bytes(name, bytes)?)
    }

    /// The architectures of text models that a tower's projector joins; none of one that joins any.
    pub fn tower_joins(&self) -> &'static [&'static str] {
        companion::joined(clip::projector(self.metadata()).unwrap_or_default())
    }

    /// The settings of the pictures of a tower.
    ///
    /// # Errors
    ///
    /// If the tower has a projector for which none are known, or lacks a key.
    pub fn vision_settings(&self) -> Result<VisionSettings, Error> {
        settings::of(self)
    }
}

/// The tower of the model at `path` as it lies in its files.
fn stored_tower(path: &Path) -> Result<Option<Checkpoint>, Error> {
    let model = if path.is_dir() { folder::model_of(path)? } else { path.to_owned() };
    if model.is_dir() {
        return tower_of_folder(&model);
    }
    let own = Checkpoint::open(&model)?;
    match clip::projector(own.metadata()) {
        Some(_) => Ok(Some(own)),
        None => companion::tower_of(&model, &own),
    }
}

fn tower_of_folder(folder: &Path) -> Result<Option<Checkpoint>, Error> {
    let mut files = OpenFiles::default();
    let opened = hf::open_tower(folder, &mut files);
    // a file that was cut meanwhile may be any kind of fault
    let files = files.finish()?;
    let Some(contents) = opened? else { return Ok(None) };
    Checkpoint::of_folder(folder, contents, files).map(Some)
}
