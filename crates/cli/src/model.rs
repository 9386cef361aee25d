//! The flags of a load, and the model that a word of the command line stands for.

use anyhow::Result;
use pelton::{
    Checkpoint, Device, EffortLevel, Engine, KvType, LoadOptions, Model, ModelSource, Session,
};

use crate::{
    effort::EffortArgs,
    fit::FitArgs,
    hints, hub,
    load_flags::ModelFlags,
    names::{BUILT_IN, BUILT_IN_VISION},
    output::Hint,
};

/// Flags of commands that run a model.
#[derive(clap::Args)]
pub(crate) struct LoadArgs {
    /// Run on auto (a GPU if there is one), cpu, gpu or gpu:N of `pelton devices`, or on several:
    /// gpu:N,cpu or gpu:0,gpu:1
    #[arg(long, value_name = "DEVICE", default_value_t)]
    pub(crate) device: Device,
    /// Use N threads on the CPU; by default one for each physical core
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Keep weights in the order of the file, which takes less memory. A CPU with AVX2 or AVX-512
    /// is slower then: without this option weights are copied for it at load
    #[arg(long)]
    pub(crate) no_repack: bool,
    #[command(flatten)]
    flags: ModelFlags,
    #[command(flatten)]
    pub(crate) effort: EffortArgs,
    #[command(flatten)]
    pub(crate) fit: FitArgs,
}

impl LoadArgs {
    /// The options of a load with these flags, which go before those of the command.
    pub(crate) fn options(&self, options: LoadOptions) -> Result<LoadOptions> {
        let options = self.fit.options(self.flags.apply(options)?, self.device)?;
        Ok(self.effort.apply(options))
    }

    /// The context, if it is given; 0 for the model's own.
    pub(crate) fn context(&self) -> Option<usize> {
        self.flags.get("context").and_then(|tokens| tokens.parse().ok())
    }

    /// Sets the context.
    pub(crate) fn set_context(&mut self, tokens: usize) {
        self.flags.set("context", tokens.to_string());
    }

    /// Says on standard error how a loaded model runs its effort, where that is not plain.
    pub(crate) fn say(&self, model: &Model) {
        self.effort.say(model);
    }

    /// The effort of these flags, or the whole model.
    pub(crate) fn effort_level(&self) -> EffortLevel {
        self.effort.level().unwrap_or_default()
    }

    /// The session of a model, at the effort of these flags.
    pub(crate) fn session(&self, model: Model) -> Result<Session> {
        let mut session = model.into_session()?;
        session.set_effort(self.effort_level())?;
        Ok(session)
    }

    /// The element type of the caches.
    pub(crate) fn kv(&self) -> KvType {
        self.flags.get("kv").and_then(|name| name.parse().ok()).unwrap_or_default()
    }

    /// Threads on the CPU.
    pub(crate) fn threads(&self) -> usize {
        self.threads.map_or_else(pelton::default_threads, usize::from)
    }
}

/// The engine of a device.
pub(crate) fn engine_on(device: Device, threads: usize, repack: bool) -> Result<Engine> {
    let engine = Engine::builder().device(device).threads(threads);
    engine.repack(repack).build().map_err(|error| match software_gpu(device) {
        Some(name) => {
            let hint = format!(
                "{name} is a driver in software, slower than --device cpu; --device gpu:0 runs on it"
            );
            Hint { error: error.into(), hint }.into()
        }
        None => {
            let hint = "`pelton doctor` shows why; `--device cpu` runs on the CPU".to_owned();
            Hint { error: error.into(), hint }.into()
        }
    })
}

/// The name of the first GPU where all are drivers in software, of which
/// `--device gpu` chooses none.
#[cfg(feature = "gpu")]
fn software_gpu(device: Device) -> Option<String> {
    let first = pelton::gpu::adapters().into_iter().next()?;
    (device == Device::Gpu(None)).then(|| first.name().to_owned())
}

#[cfg(not(feature = "gpu"))]
fn software_gpu(_: Device) -> Option<String> {
    None
}

/// The model that a name on the command line stands for.
pub(crate) fn source(name: &str) -> ModelSource {
    ModelSource::built_in(name).unwrap_or_else(|| name.into())
}

/// Opens a model file without loading it.
pub(crate) fn open(file: &str) -> Result<Checkpoint> {
    match &*hub::local(file, Device::Auto)? {
        BUILT_IN => Ok(pelton::built_in()?),
        BUILT_IN_VISION => Ok(pelton::built_in_vision()?),
        file => Checkpoint::open(file).map_err(|error| hints::of_load(error, file)),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};
    use pelton::LoadKind;

    use super::*;

    /// Each flag with a value that is not the default.
    fn flags() -> Vec<String> {
        let command = LoadArgs::augment_args(Command::new("load"));
        let mut all = Vec::new();
        for argument in command.get_arguments() {
            let name = argument.get_long().unwrap();
            let value = match name {
                "device" => "cpu",
                "threads" => "7",
                "quantize" => "q8_0",
                "kv" => "q8_0/q4_0",
                "kv-memory" => "1G",
                "host-experts" | "n-cpu-moe" => "5",
                "host-ffn" => "auto",
                "split" => "3,2",
                "fit-budget" => "gpu:0=1G",
                "lora" => "a.gguf=0.5",
                "effort" => "0.5,ranks=4",
                "mmproj" => "mmproj.gguf",
                "override-kv" => "a.b=int:1",
                "rope-scale" | "rope-freq-base" => "2.5",
                _ if !argument.get_action().takes_values() => "",
                _ => of_kind(name),
            };
            let flag = match value {
                "" => format!("--{name}"),
                value => format!("--{name}={value}"),
            };
            all.push(flag);
        }
        all
    }

    /// A value of an option whose type says what its values are.
    fn of_kind(flag: &str) -> &'static str {
        let option = LoadOptions::OPTIONS.iter().find(|option| option.flag == Some(flag));
        match option.map(|option| option.kind) {
            Some(LoadKind::Integer(..)) => "77",
            Some(LoadKind::Bytes(..)) => "1G",
            Some(LoadKind::Time(_)) => "77ms",
            Some(LoadKind::Words(words, _)) => words.last().unwrap(),
            _ => panic!("--{flag} is new: give it a value here"),
        }
    }

    fn parse(words: &[String]) -> LoadArgs {
        let command = LoadArgs::augment_args(Command::new("load"));
        let words = std::iter::once("load").chain(words.iter().map(String::as_str));
        let matches = command.try_get_matches_from(words).unwrap_or_else(|e| panic!("{e}"));
        LoadArgs::from_arg_matches(&matches).unwrap()
    }

    /// The input of a load: its options, and those of the engine.
    fn of_run(words: &[String]) -> String {
        let args = parse(words);
        let options = args.options(LoadOptions::default()).unwrap();
        format!("{options:?} {:?} {} {}", args.device, args.threads(), args.no_repack)
    }

    /// The same of a server, whose own options are taken back.
    fn of_serve(words: &[String]) -> String {
        let config = crate::commands::serve::config_of(words).unwrap();
        let mut options = config.load;
        let default = LoadOptions::default();
        options.max_concurrent = default.max_concurrent;
        options.fit_context = default.fit_context;
        options.queue_requests = default.queue_requests;
        options.queue_tokens = default.queue_tokens;
        let (device, threads) = (config.device, config.threads);
        format!("{options:?} {device:?} {threads} {}", config.in_file_order)
    }

    /// No flag of a load is ignored by the server.
    #[test]
    fn run_and_serve_load_alike() {
        assert_eq!(of_serve(&[]), of_run(&[]));
        for flag in flags() {
            let words = [flag];
            assert_ne!(of_run(&words), of_run(&[]), "{words:?}");
            assert_eq!(of_serve(&words), of_run(&words), "{words:?}");
        }
    }
}
