//! Loading a model.

use std::path::{Path, PathBuf};

use pelton::{Device, DraftSource, Engine, KvType, ModelSource, cpu::SystemMemory};
use pelton_hub::{Cancel, Hub, Reference, Settings};
use pyo3::{
    prelude::*,
    types::{PyDict, PyString},
};

use crate::{arguments, error::Failure, load_options, model::Model, wait::on_thread};

/// The share of the free memory that a model of a hub may take where its name leaves
/// the quantization open.
const SHARE: f64 = 0.7;
/// Requests that run at the same time where the caller does not say.
const CONCURRENT: usize = 8;
/// Endings of model files, which no name of a hub has.
const ENDINGS: [&str; 3] = [".gguf", ".bin", ".safetensors"];

/// A model of a call.
pub(crate) enum Place {
    BuiltIn(ModelSource),
    Path(PathBuf),
    /// A path, or the name of a model of a hub.
    Word(String),
}

impl Place {
    pub(crate) fn new(path: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(path) = path else { return Ok(Self::BuiltIn(ModelSource::BuiltIn)) };
        // a text with surrogates is the name of a file, and of no model of a hub
        if path.is_instance_of::<PyString>()
            && let Ok(word) = path.extract::<String>()
        {
            return Ok(ModelSource::built_in(&word).map_or(Self::Word(word), Self::BuiltIn));
        }
        arguments::path("path", path, "a path: str or os.PathLike").map(Self::Path)
    }

    /// The file, which is downloaded if it is one of a hub and not on this machine.
    pub(crate) fn source(self, cancel: &Cancel) -> Result<ModelSource, Failure> {
        let word = match self {
            Self::BuiltIn(source) => return Ok(source),
            Self::Path(path) => return Ok(path.into()),
            Self::Word(word) => word,
        };
        let lower = word.to_ascii_lowercase();
        let is_path = Path::new(&word).exists()
            || ENDINGS.iter().any(|ending| lower.ends_with(ending))
            || [".", "/", "~", "\\"].iter().any(|start| word.starts_with(start));
        if is_path && !lower.starts_with("https://") {
            return Ok(word.into());
        }
        let reference: Reference = word.parse()?;
        let hub = Hub::new(Settings::from_environment()?)?;
        let budget = SystemMemory::read().available.map(|bytes| (bytes as f64 * SHARE) as u64);
        let model = match hub.find(&reference, budget) {
            Some(model) => model,
            None => {
                let plan = hub.plan(&reference, budget, cancel)?;
                hub.fetch(&plan, &mut |_| {}, cancel)?
            }
        };
        Ok(model.path.into())
    }
}

/// The device of a word, and its engine.
pub(crate) fn engine(device: &str, threads: Option<usize>) -> Result<Engine, Failure> {
    let device: Device = device.parse().map_err(|error: String| Failure::input(error))?;
    let builder = Engine::builder().device(device);
    let builder = match threads {
        Some(threads) => builder.threads(threads),
        None => builder,
    };
    Ok(builder.build()?)
}

/// The element type of keys and values.
pub(crate) fn kv_type(word: &str) -> Result<KvType, Failure> {
    word.parse::<KvType>().map_err(|expected| Failure::input(format!("kv is {word:?}, {expected}")))
}

/// Loads a model that generates text or embeds it.
///
/// `path` is a GGUF file, a Hugging Face directory, or the name of a model of a hub, which is
/// downloaded where it is not on this machine; None is the model within the package. The other
/// arguments are the options of `LOAD_OPTIONS`; see the documentation of the package.
#[pyfunction]
#[pyo3(signature = (path = None, device = "auto", context = None, *, threads = None, **options))]
pub(crate) fn load(
    py: Python<'_>,
    path: Option<&Bound<'_, PyAny>>,
    device: &str,
    context: Option<&Bound<'_, PyAny>>,
    threads: Option<usize>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Model> {
    let place = Place::new(path)?;
    let mut options = load_options::read(context, options)?;
    options.max_concurrent.get_or_insert(CONCURRENT);
    let device = device.to_owned();
    let model = on_thread(py, move |gone| {
        let engine = engine(&device, threads)?;
        if let Some(DraftSource::Model(ModelSource::Path(path))) = options.draft {
            let draft = path.into_os_string().into_string();
            let draft = draft.map_or_else(|path| Place::Path(path.into()), Place::Word);
            options.draft = Some(DraftSource::Model(draft.source(gone.flag())?));
        }
        let source = place.source(gone.flag())?;
        Ok(engine.load(source, &options)?)
    })?;
    Ok(Model::new(model))
}
