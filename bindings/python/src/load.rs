//! Loading a model.

use std::path::{Path, PathBuf};

use pelton::{
    Device, EffortOptions, Engine, KvMemory, KvType, LoadOptions, ModelSource, Pooling,
    cpu::SystemMemory,
};
use pelton_hub::{Cancel, Hub, Reference, Settings};
use pyo3::{prelude::*, types::PyString};

use crate::{
    arguments,
    error::Failure,
    model::Model,
    options::{effort as effort_level, speculation as speculation_word},
    wait::on_thread,
};

/// The share of the free memory that a model of a hub may take where its name leaves the quantization open.
const SHARE: f64 = 0.7;
/// Requests that run at the same time where the caller does not say.
const CONCURRENT: usize = 8;
/// Endings of model files, which no name of a hub has.
const ENDINGS: [&str; 3] = [".gguf", ".bin", ".safetensors"];

/// A model of a call.
pub(crate) enum Place {
    BuiltIn,
    Path(PathBuf),
    /// A path, or the name of a model of a hub.
    Word(String),
}

impl Place {
    pub(crate) fn new(path: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(path) = path else { return Ok(Self::BuiltIn) };
        // a text with surrogates is the name of a file, and of no model of a hub
        if path.is_instance_of::<PyString>()
            && let Ok(word) = path.extract()
        {
            return Ok(Self::Word(word));
        }
        arguments::path("path", path, "a path: str or os.PathLike").map(Self::Path)
    }

    /// The file, which is downloaded if it is one of a hub and not on this machine.
    pub(crate) fn source(self, cancel: &Cancel) -> Result<ModelSource, Failure> {
        let word = match self {
            Self::BuiltIn => return Ok(ModelSource::BuiltIn),
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
    match word.to_ascii_lowercase().as_str() {
        "f16" => Ok(KvType::F16),
        "f32" => Ok(KvType::F32),
        "q8_0" => Ok(KvType::Q8_0),
        _ => Err(Failure::input(format!("kv is {word:?}, expected f16, f32 or q8_0"))),
    }
}

fn pooling_word(word: &str) -> Result<Pooling, Failure> {
    let all = [Pooling::None, Pooling::Mean, Pooling::Cls, Pooling::Last];
    all.into_iter().find(|pooling| pooling.to_string() == word).ok_or_else(|| {
        Failure::input(format!("pooling is {word:?}, expected none, mean, cls or last"))
    })
}

/// Loads a model that generates text or embeds it.
///
/// `path` is a GGUF file, a Hugging Face directory, or the name of a model of a hub, which is downloaded
/// where it is not on this machine; None is the model within the package. See the documentation of the
/// package for the other arguments.
#[pyfunction]
#[pyo3(signature = (
    path = None, device = "auto", context = None, *, threads = None, max_concurrent = None,
    fit_context = false, kv = "f16", kv_bytes = None, effort = None, speculation = None,
    draft = None, loras = None, pooling = None,
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn load(
    py: Python<'_>,
    path: Option<&Bound<'_, PyAny>>,
    device: &str,
    context: Option<usize>,
    threads: Option<usize>,
    max_concurrent: Option<usize>,
    fit_context: bool,
    kv: &str,
    kv_bytes: Option<u64>,
    effort: Option<&Bound<'_, PyAny>>,
    speculation: Option<&Bound<'_, PyAny>>,
    draft: Option<&Bound<'_, PyAny>>,
    loras: Option<Vec<(PathBuf, f32)>>,
    pooling: Option<&str>,
) -> PyResult<Model> {
    let place = Place::new(path)?;
    let raise = |failure: Failure| failure.raise(py);
    let mut options = LoadOptions::default();
    options.context = context;
    options.fit_context = fit_context;
    options.max_concurrent = max_concurrent;
    options.kv = kv_type(kv).map_err(raise)?;
    if let Some(bytes) = kv_bytes {
        options.kv_memory = KvMemory::Bytes(bytes);
    }
    options.effort = effort.map(|value| effort_of_load(value)).transpose()?.flatten();
    if let Some(word) = speculation {
        options.speculation = speculation_word("speculation", word)?;
    }
    let draft = draft.map(|path| Place::new(Some(path))).transpose()?;
    for (path, scale) in loras.into_iter().flatten() {
        options = options.lora(path, scale);
    }
    options.pooling = pooling.map(pooling_word).transpose().map_err(raise)?;
    let device = device.to_owned();
    let model = on_thread(py, move |gone| {
        let engine = engine(&device, threads)?;
        if let Some(draft) = draft {
            options = options.draft(draft.source(gone.flag())?);
        }
        let source = place.source(gone.flag())?;
        if options.max_concurrent.is_none() {
            options.max_concurrent = Some(CONCURRENT);
        }
        Ok(engine.load(source, &options)?)
    })?;
    Ok(Model::new(model))
}

/// `True` for any effort with 1 as the default, or the default.
fn effort_of_load(value: &Bound<'_, PyAny>) -> PyResult<Option<EffortOptions>> {
    match value.extract::<bool>() {
        Ok(true) => Ok(Some(EffortOptions::from(1.0))),
        Ok(false) => Ok(None),
        Err(_) => Ok(Some(EffortOptions::from(effort_level("effort", value)?))),
    }
}
