//! `pelton plan`: the memory and the speed of a model with many streams, from its shapes and
//! the rates of a device.

mod args;

use std::io::Write;

use anyhow::{Result, bail, ensure};
use pelton::{
    Engine, KvMemory, LoadOptions, TowerOutline, Work,
    graph::{Needs, Plan, Rates},
};
use pelton_printable::line;
use serde_json::json;

use crate::{
    hub,
    loader::Loader,
    model,
    model_budget::ModelBudget,
    output::{self, note},
};
pub(crate) use args::Args;
use args::STREAMS_MAX;

/// Bytes of the program itself.
const PROGRAM: u64 = 24 << 20;
/// Streams at full length where no context is given.
const CONTEXT: usize = 4096;

/// The memory of a load in bytes.
struct Memory {
    needs: Needs,
    /// Copies of weights in the order in which the CPU multiplies them.
    copies: u64,
    /// The vision tower.
    tower: u64,
    /// Bytes of the program, where it shares the memory.
    program: u64,
}

impl Memory {
    fn total(&self) -> u64 {
        self.needs.total() + self.needs.mapped + self.copies + self.tower + self.program
    }

    /// The same with another number of streams.
    fn with_streams(&self, streams: usize, of: usize) -> u64 {
        let caches = self.needs.caches;
        self.total() - caches + (caches as f64 * of as f64 / streams as f64) as u64
    }

    /// The same without mapped weights, which the system can read again from their file.
    fn least(&self, streams: usize, of: usize) -> u64 {
        self.with_streams(streams, of) - self.needs.mapped
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let stated = stated(args)?;
    if !(args.target_tbt.is_finite() && args.target_tbt > 0.0) {
        bail!("--target-tbt is {}, expected milliseconds above 0", args.target_tbt);
    }
    let loader = Loader::new(&args.load);
    let engine = loader.engine()?;
    let file = hub::local(&args.model, args.load.device)?;
    let checkpoint = model::open(&file)?;
    let streams = args.streams as usize;
    let mut options = LoadOptions::default().fit_context().max_concurrent(streams);
    options = loader.options(options)?;
    options.context = options.context.or(Some(CONTEXT));
    let tower = TowerOutline::of(model::source(&file), &options)?;
    let checkpoint = engine.changed(checkpoint, &options)?;
    let outline = engine.outline(&checkpoint, tower.as_ref(), &options)?;
    let context = outline.limits.context;
    let depth = args.depth.unwrap_or(context / 2).min(context - 1);
    let rates = match stated {
        Some(rates) => rates,
        None => measured(&loader, args, &outline.plan)?,
    };
    let on_cpu = engine.backend() == "cpu";
    let copies = match on_cpu && !args.load.no_repack {
        true => pelton::cpu::packed_bytes(&outline.plan),
        false => 0,
    };
    let program = if on_cpu { PROGRAM } else { 0 };
    let memory = Memory { needs: outline.needs, copies, tower: outline.tower, program };
    let available = match args.memory {
        Some(KvMemory::Bytes(bytes)) => Some(bytes),
        Some(_) => bail!("--memory is no number of bytes, expected one such as 16G"),
        None if stated.is_some() => None,
        None => ModelBudget::of(args.load.device).map(|budget| budget.memory()),
    };
    let (plan, kv) = (&outline.plan, args.load.kv());
    // rates that a model was measured with are complete
    let seconds = |work: Work| work.seconds(&rates).unwrap_or(f64::INFINITY);
    let decode = |streams| seconds(Work::of(plan, streams, depth, kv));
    let fits = |n: usize| {
        let in_memory = available.is_none_or(|most| memory.least(streams, n) <= most);
        in_memory && decode(n) * 1e3 <= args.target_tbt
    };
    let figures = Figures {
        streams,
        context,
        depth,
        prompt: args.prompt.clamp(1, context),
        seconds: decode(streams),
        prompt_seconds: seconds(Work::of_prompt(plan, args.prompt.clamp(1, context), kv)),
        within: (1..=STREAMS_MAX).take_while(|&n| fits(n)).count(),
        target: args.target_tbt,
    };
    let backend = if stated.is_some() { "the stated device" } else { engine.backend() };
    match args.json {
        true => print_json(checkpoint.name(), backend, &memory, available, &rates, &figures),
        false => print_text(checkpoint.name(), backend, &memory, available, &figures),
    }
}

/// The rates that the options state.
fn stated(args: &Args) -> Result<Option<Rates>> {
    let (Some(read), Some(multiply)) = (args.read, args.multiply) else { return Ok(None) };
    for (name, value) in [("--read", read), ("--multiply", multiply)] {
        ensure!(value.is_finite() && value > 0.0, "{name} is {value}, expected a number above 0");
    }
    ensure!(
        args.step.is_finite() && args.step >= 0.0,
        "--step is {}, expected a number of at least 0",
        args.step
    );
    let (multiply, step) = (Some(multiply * 1e9), args.step * 1e-6);
    Ok(Some(Rates { multiply, step, ..Rates::reading(read * 1e9) }))
}

/// The rates of the device, which are measured where they are not known: those of its products by
/// passes over the model, which is loaded for them.
fn measured(loader: &Loader<'_>, args: &Args, plan: &Plan) -> Result<Rates> {
    let engine = loader.engine()?;
    if args.measure || !engine.unmeasured().is_empty() {
        note!("measuring the speed of memory and links, about a second for each device");
        if let Err(error) = engine.measure() {
            note!("the passes of the model alone tell the speed: {error}");
        }
    }
    if let Some(rates) = engine.rates(plan).filter(|rates| rates.multiply.is_some()) {
        return Ok(rates);
    }
    let model = loader.load(&args.model, Engine::loaded_to_measure())?;
    Ok(engine.measure_passes(model)?)
}

struct Figures {
    streams: usize,
    context: usize,
    depth: usize,
    prompt: usize,
    /// The time of a pass with a token for each stream.
    seconds: f64,
    prompt_seconds: f64,
    /// Streams that keep the target.
    within: usize,
    target: f64,
}

fn print_text(
    name: &str,
    backend: &str,
    memory: &Memory,
    available: Option<u64>,
    figures: &Figures,
) -> Result<()> {
    let mut out = output::stdout();
    let Figures { streams, context, depth, prompt, seconds, prompt_seconds, within, target } =
        figures;
    let name = line(name);
    writeln!(out, "{name} on {backend}, streams: {streams}, context: {context}\n")?;
    let bytes = output::bytes;
    let Needs { weights, caches, buffers, scratch, mapped, .. } = memory.needs;
    let terms = [
        ("weights", weights),
        ("weights in the map of the file", mapped),
        ("their copies for the CPU", memory.copies),
        ("keys and values", caches),
        ("buffers", buffers + scratch),
        ("the vision tower", memory.tower),
        ("the program", memory.program),
    ];
    let terms = terms.iter().filter(|(_, size)| *size > 0);
    let terms: Vec<_> = terms.map(|(name, size)| format!("{} of {name}", bytes(*size))).collect();
    writeln!(out, "memory      {} = {}", bytes(memory.total()), terms.join(" + "))?;
    let rate = *streams as f64 / seconds;
    let each = 1.0 / seconds;
    let time = seconds * 1e3;
    writeln!(
        out,
        "generation  {rate:.1} tokens/s, {each:.1} of each stream, {time:.2} ms a token at depth {depth}"
    )?;
    let rate = *prompt as f64 / prompt_seconds;
    let time = prompt_seconds * 1e3;
    writeln!(out, "prompts     {rate:.0} tokens/s, {time:.0} ms for one of {prompt}")?;
    let of = available.map_or_else(String::new, |most| format!(" and in {}", bytes(most)));
    writeln!(out, "within {target} ms a token{of}: {within} streams")?;
    Ok(())
}

fn print_json(
    name: &str,
    backend: &str,
    memory: &Memory,
    available: Option<u64>,
    rates: &Rates,
    figures: &Figures,
) -> Result<()> {
    let object = json!({
        "model": name, "backend": backend,
        "streams": figures.streams, "context": figures.context, "depth": figures.depth,
        "memory": {
            "weights": memory.needs.weights, "mapped": memory.needs.mapped, "copies": memory.copies, "caches": memory.needs.caches,
            "buffers": memory.needs.buffers, "scratch": memory.needs.scratch, "tower": memory.tower,
            "program": memory.program,
            "total": memory.total(), "available": available,
        },
        "rates": {
            "read_bytes_per_second": rates.read,
            "cache_bytes_per_second": rates.cache.unwrap_or(rates.read),
            "operations_per_second": rates.multiply,
            "operations_per_second_of_few_rows": rates.few.or(rates.multiply),
            "step_seconds": rates.step,
        },
        "decode_tokens_per_second": figures.streams as f64 / figures.seconds,
        "token_milliseconds": figures.seconds * 1e3,
        "prompt_tokens": figures.prompt,
        "prompt_tokens_per_second": figures.prompt as f64 / figures.prompt_seconds,
        "prompt_milliseconds": figures.prompt_seconds * 1e3,
        "target_milliseconds": figures.target,
        "streams_within_target": figures.within,
    });
    writeln!(output::stdout(), "{object:#}")?;
    Ok(())
}
