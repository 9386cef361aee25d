//! The load of a model: each replica of one of text, or the one copy of one that recognizes speech.

use std::{sync::Arc, time::Instant};

use pelton::{Engine, Error, LoadOptions, Model, ModelSource, SpeechOptions, graph::OutputKind};

use super::{Served, listener::Listener, replicas::Replicas};
use crate::{
    config::{BuiltIn, ModelConfig},
    defaults::Defaults,
    error::ApiError,
    kv_events::Publisher,
    media::Media,
};

/// The most windows of speech at the same time.
const WINDOWS: usize = 64;

/// The engines of the models.
#[derive(Clone)]
pub(crate) struct Engines {
    /// One for each replica of a model of text.
    pub(crate) text: Vec<Arc<Engine>>,
    /// On a CPU it has threads of its own, so that a window of speech keeps no text waiting.
    pub(crate) speech: Arc<Engine>,
}

impl Engines {
    /// The name of the backend of texts.
    pub(crate) fn backend(&self) -> &str {
        self.text.first().unwrap_or(&self.speech).backend()
    }
}

/// A model that is to be loaded.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) config: ModelConfig,
    pub(super) engines: Engines,
    pub(super) options: LoadOptions,
    pub(super) defaults: Arc<Defaults>,
    pub(super) media: Arc<Media>,
    pub(super) publisher: Option<Publisher>,
}

impl Load {
    /// Loads the model. Blocks until it is loaded.
    pub(super) fn run(&self) -> Result<Served, ApiError> {
        let begun = Instant::now();
        let name = &self.config.name;
        let fail = |error: &dyn std::fmt::Display| {
            ApiError::internal(format!("the model {name} could not be loaded: {error}"))
        };
        let models = match self.config.built_in {
            BuiltIn::Speech => None,
            BuiltIn::Text | BuiltIn::Vision => match self.of_text() {
                Ok(models) => Some(models),
                // the file is one of a model of speech
                Err(Error::Output { .. }) => None,
                Err(error) => return Err(fail(&error)),
            },
        };
        let (served, summary) = match models {
            Some(models) => {
                let replicas = Replicas::new(models).map_err(|error| fail(&error))?;
                self.served(replicas)?
            }
            None => self.listening().map_err(|error| fail(&error))?,
        };
        let seconds = begun.elapsed().as_secs_f64();
        tracing::info!(model = name, seconds, "the model is loaded: {summary}");
        Ok(served)
    }

    fn source(&self) -> ModelSource {
        match (&self.config.path, self.config.built_in) {
            (Some(path), _) => path.into(),
            (None, BuiltIn::Vision) => ModelSource::BuiltInVision,
            (None, BuiltIn::Text | BuiltIn::Speech) => ModelSource::BuiltIn,
        }
    }

    /// The replicas of a model of text, one after the other: each sees the memory that is left.
    fn of_text(&self) -> Result<Vec<Model>, Error> {
        let models = self.with_context(self.options.context)?;
        let contexts = models.iter().map(Model::context);
        let (Some(least), Some(most)) = (contexts.clone().min(), contexts.max()) else {
            return Ok(models);
        };
        if least == most {
            return Ok(models);
        }
        // a request must fit any of them; parts of a plan may depend on the context that is asked
        // for
        tracing::info!(
            model = self.config.name,
            least,
            most,
            "the replicas have room for other contexts, and are loaded again with the least"
        );
        drop(models);
        self.with_context(Some(least))
    }

    fn with_context(&self, context: Option<usize>) -> Result<Vec<Model>, Error> {
        let load = |(replica, engine): (usize, &Arc<Engine>)| {
            let mut options = self.options.clone();
            options.context = context;
            if let Some(publisher) = &self.publisher {
                // a single replica has no rank
                let rank = (self.engines.text.len() > 1).then_some(replica);
                options = options.cache_events(publisher.of(&self.config.name, rank));
            }
            engine.load(self.source(), &options)
        };
        self.engines.text.iter().enumerate().map(load).collect()
    }

    /// A loaded model of text, and what it is.
    fn served(&self, replicas: Replicas) -> Result<(Served, String), ApiError> {
        let first = replicas.first();
        let mut summary = first.summary().to_string();
        if replicas.count() > 1 {
            summary = format!("{} replicas, each {summary}", replicas.count());
        }
        let answers = first.plan().output == OutputKind::Logits;
        let served = Served::new(&self.config, replicas, &self.defaults, &self.media)?;
        if answers && !served.has_template {
            let model = &self.config.name;
            tracing::info!(model, "no chat template: messages are joined by lines");
        }
        Ok((served, summary))
    }

    /// A loaded model that recognizes speech, and what it is.
    fn listening(&self) -> Result<(Served, String), Error> {
        let windows = self.options.max_concurrent.unwrap_or(1).clamp(1, WINDOWS);
        let sizes = SpeechOptions::default().windows(windows).kv(self.options.kv);
        let engine = &self.engines.speech;
        let model = engine.load_speech(self.source(), &sizes)?;
        let summary = format!("{} recognizes speech, on {}", model.name(), engine.backend());
        // the built-in model was trained on short texts before a window
        let conditions = self.config.path.is_some();
        let listener = Listener::new(model, self.options.queue_requests, conditions);
        Ok((Served::listening(&self.config, listener), summary))
    }
}
