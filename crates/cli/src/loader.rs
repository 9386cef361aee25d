//! The load of a model of a command: its name is resolved, the device opened, the model loaded,
//! and the outcome told.

use std::cell::OnceCell;

use anyhow::Result;
use pelton::{Engine, Error, LoadOptions, Model};

use crate::{
    hints, hub,
    model::{LoadArgs, engine_on, source},
    names::demonstration,
    output::{WithHint, note},
    progress::Progress,
};

/// Loads models as flags say, on one engine.
pub(crate) struct Loader<'a> {
    args: &'a LoadArgs,
    engine: OnceCell<Engine>,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(args: &'a LoadArgs) -> Self {
        Self { args, engine: OnceCell::new() }
    }

    /// The engine of the flags, whose device the first call opens.
    pub(crate) fn engine(&self) -> Result<&Engine> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let Self { args, .. } = self;
        let engine = engine_on(args.device, args.threads(), !args.no_repack)?;
        Ok(self.engine.get_or_init(|| engine))
    }

    /// The options of a load with the flags, in which a draft model and adapters are
    /// paths of this machine.
    pub(crate) fn options(&self, options: LoadOptions) -> Result<LoadOptions> {
        hub::localized(self.args.options(options)?, self.args.device)
    }

    /// Loads a model; a bar shows the progress of a load that takes more than a second.
    pub(crate) fn load(&self, word: &str, options: LoadOptions) -> Result<Model> {
        let Self { args, .. } = self;
        // downloads come before the device is opened
        let file = hub::local(word, args.device)?;
        let options = self.options(options)?;
        let engine = self.engine()?;
        let bar = Progress::new("loading {bar:32} {bytes} of {total_bytes}, {eta} left", 0);
        let counter = bar.counter().clone();
        let options = options.progress(move |progress| counter.set(progress.done, progress.total));
        let model = engine.load(source(&file), &options);
        drop(bar);
        match model {
            Err(error @ Error::Context { .. }) if args.context().is_none() => Err(error)
                .hint("without --context it is the sum of the lengths on the command line"),
            model => {
                let model = model.map_err(|error| hints::of_load(error, &file))?;
                args.say(&model);
                args.fit.say(model.checkpoint());
                Ok(model)
            }
        }
    }

    /// As [`load`](Self::load), and says in one line of standard error what runs. A context longer
    /// than the model's is cut to that.
    pub(crate) fn load_and_say(&self, word: &str, options: LoadOptions) -> Result<Model> {
        let Self { args, .. } = self;
        let options = if args.context().is_some() { options.fit_context() } else { options };
        let model = self.load(word, options)?;
        if let Some(what) = demonstration(word) {
            note!("{what}");
        }
        note!("{}", model.summary());
        if model.placement().devices.len() > 1 {
            note!("{}", model.placement());
        }
        if let Some(asked) = args.context().filter(|&asked| asked > model.context()) {
            note!("--context {asked} is more than the model has: it is {} now", model.context());
        }
        Ok(model)
    }
}
