//! `pelton inspect`: the contents of a model file.

mod speech;

use std::{collections::BTreeMap, io::Write};

use anyhow::{Result, bail};
use pelton::{
    Checkpoint, Device, DeviceShare, LoadOptions, Prediction, PredictionTerm,
    graph::{self, Plan},
    weights::Value,
};
use pelton_printable::line;
use serde_json::json;

use crate::{
    fit::FitArgs,
    hints, hub, model,
    output::{self, WithHint, note},
    tower::Tower,
};
use speech::Speech;

/// The key of the chat template.
const TEMPLATE: &str = "tokenizer.chat_template";
/// Shown elements of an array.
const SHOWN: usize = 6;
/// Shown characters of a string.
const SHOWN_CHARS: usize = 72;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model: a file, a directory, a name such as qwen3:0.6b, or built-in
    file: String,
    /// Show every tensor's type and shape
    #[arg(long)]
    tensors: bool,
    /// Show the operations of a forward pass, with all fusions
    #[arg(long)]
    plan: bool,
    /// Show which layers would run on which device, their memory there, and the predicted
    /// speed; nothing is loaded
    #[arg(long, conflicts_with_all = ["tensors", "plan"])]
    placement: bool,
    /// Measure the rates of the devices again, by which --placement predicts the speed. They are
    /// measured once and kept
    #[arg(long, requires = "placement")]
    measure: bool,
    /// The devices of --placement, as commands that run a model have them
    #[arg(long, value_name = "DEVICE", default_value_t, requires = "placement")]
    device: Device,
    /// The context of --placement in tokens
    #[arg(short, long, value_name = "N", requires = "placement")]
    context: Option<usize>,
    #[command(flatten)]
    fit: FitArgs,
    /// Show the chat template alone, in full
    #[arg(long, conflicts_with_all = ["tensors", "plan", "placement", "json"])]
    template: bool,
    /// Write one JSON object, with complete strings and the lengths of arrays
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    if args.placement {
        return print_placement(&args);
    }
    let file = hub::local(&args.file, Device::Auto)?;
    let checkpoint = model::open(&file)?;
    if args.template {
        let Some(template) = checkpoint.metadata().opt_string(TEMPLATE)? else {
            bail!("{} has no chat template; --chat-template NAME gives one to a chat", args.file);
        };
        writeln!(output::stdout(), "{template}")?;
        return Ok(());
    }
    let plan = match args.plan {
        true => Some(
            graph::build(&checkpoint)
                .map(|plan| plan.fuse(&|_, _| true))
                .hint("without --plan the file's metadata is shown")?,
        ),
        false => None,
    };
    let tower = Tower::of(&file, &checkpoint);
    match args.json {
        true => print_json(&checkpoint, &tower, args.tensors, plan.as_ref()),
        false => print_text(&checkpoint, &tower, args.tensors, plan.as_ref()),
    }
}

fn print_placement(args: &Args) -> Result<()> {
    let file = hub::local(&args.file, args.device)?;
    let engine = model::engine_on(args.device, pelton::default_threads(), true)?;
    args.fit.say(&model::open(&file)?);
    let mut options = args.fit.options(LoadOptions::default(), args.device)?;
    options.context = args.context;
    let place = || engine.placement(model::source(&file), &options);
    let mut placement = place().map_err(|error| hints::of_load(error, &file))?;
    if args.measure || (placement.prediction.is_none() && !engine.unmeasured().is_empty()) {
        note!("measuring the speed of memory and links, about a second for each device");
        match engine.measure() {
            Ok(()) => placement = place().map_err(|error| hints::of_load(error, &file))?,
            Err(error) => note!("no speed is predicted: {error}"),
        }
    }
    let mut out = output::stdout();
    if !args.json {
        writeln!(out, "{placement}")?;
        return Ok(());
    }
    let device = |share: &DeviceShare| {
        let needs = share.needs;
        let host = share.feed_forwards.as_ref().map(|(which, layers)| {
            json!({ "kind": which.name(), "first_layer": layers.start, "end_layer": layers.end })
        });
        json!({
            "device": share.device, "first_layer": share.layers.start, "end_layer": share.layers.end,
            "embedding": share.embedding, "output": share.output, "weights_bytes": needs.weights,
            "mapped_bytes": needs.mapped, "kv_bytes": needs.caches, "buffers_bytes": needs.buffers,
            "scratch_bytes": needs.scratch, "streamed_bytes": needs.streamed,
            "staging_bytes": needs.staging, "host": host,
            "free_bytes": share.budget,
        })
    };
    let prediction = placement.prediction.as_ref();
    let object = json!({
        "prediction": prediction.map(predicted),
        "context": placement.context, "sequences": placement.sequences, "rows": placement.rows,
        "devices": placement.devices.iter().map(device).collect::<Vec<_>>(),
    });
    writeln!(out, "{object:#}")?;
    Ok(())
}

/// The object of a prediction.
fn predicted(prediction: &Prediction) -> serde_json::Value {
    let term = |term: &PredictionTerm| {
        json!({
            "name": term.name, "seconds": term.time.as_secs_f64(), "bytes": term.bytes,
            "bytes_per_second": term.bytes_per_second, "count": term.count,
        })
    };
    let prompt = prediction.prompt.as_ref().map(|prompt| {
        json!({
            "tokens_per_second": prompt.tokens_per_second(), "rows": prompt.rows,
            "seconds": prompt.time.as_secs_f64(), "streamed_bytes": prompt.bytes,
            "stream_seconds": prompt.stream.as_secs_f64(),
        })
    });
    json!({
        "tokens_per_second": prediction.tokens_per_second(), "depth": prediction.depth,
        "terms": prediction.terms.iter().map(term).collect::<Vec<_>>(), "prompt": prompt,
    })
}

fn print_text(
    checkpoint: &Checkpoint,
    tower: &Tower,
    tensors: bool,
    plan: Option<&Plan>,
) -> Result<()> {
    let mut out = output::stdout();
    let summary = Summary::of(checkpoint);
    writeln!(
        out,
        "{}: {}, {} parameters in {} tensors ({})",
        line(checkpoint.name()),
        output::bytes(checkpoint.file_bytes()),
        output::count(summary.parameters),
        checkpoint.tensors().len(),
        summary.types(),
    )?;
    if let Some(speech) = Speech::of(checkpoint)? {
        writeln!(out, "{speech}")?;
    }
    if let Some(tower) = tower.line() {
        writeln!(out, "pictures: {}", line(&tower))?;
    }
    writeln!(out, "\nmetadata")?;
    for (key, value) in checkpoint.metadata().iter() {
        writeln!(out, "  {:<44} {}", line(key), short(value))?;
    }
    if tensors {
        writeln!(out, "\ntensors")?;
        for tensor in checkpoint.tensors() {
            let shape: Vec<_> = tensor.shape.iter().map(usize::to_string).collect();
            writeln!(
                out,
                "  {:<44} {:<7} {:<18} {}",
                line(tensor.name),
                tensor.dtype.name(),
                shape.join(" × "),
                output::bytes(tensor.bytes.len() as u64),
            )?;
        }
    }
    if let Some(plan) = plan {
        write!(out, "\nplan\n{plan}")?;
    }
    Ok(())
}

fn print_json(
    checkpoint: &Checkpoint,
    tower: &Tower,
    tensors: bool,
    plan: Option<&Plan>,
) -> Result<()> {
    let summary = Summary::of(checkpoint);
    let metadata: serde_json::Map<_, _> =
        checkpoint.metadata().iter().map(|(key, value)| (key.to_owned(), to_json(value))).collect();
    let mut object = json!({
        "file": checkpoint.name(),
        "bytes": checkpoint.file_bytes(),
        "parameters": summary.parameters,
        "types": summary.tensors_by_type,
        "metadata": metadata,
    });
    if let Some(speech) = Speech::of(checkpoint)? {
        object["speech"] = speech.to_json();
    }
    object["tower"] = tower.to_json();
    if tensors {
        object["tensors"] = checkpoint
            .tensors()
            .map(|t| {
                json!({
                    "name": t.name, "type": t.dtype.name(), "shape": t.shape,
                    "bytes": t.bytes.len(),
                })
            })
            .collect();
    }
    if let Some(plan) = plan {
        object["plan"] = plan.to_string().lines().collect();
    }
    writeln!(output::stdout(), "{object:#}")?;
    Ok(())
}

struct Summary {
    parameters: u64,
    tensors_by_type: BTreeMap<&'static str, usize>,
}

impl Summary {
    fn of(checkpoint: &Checkpoint) -> Self {
        let mut tensors_by_type = BTreeMap::new();
        let mut parameters = 0;
        for tensor in checkpoint.tensors() {
            *tensors_by_type.entry(tensor.dtype.name()).or_insert(0) += 1;
            parameters += tensor.row_len() as u64 * tensor.rows() as u64;
        }
        Self { parameters, tensors_by_type }
    }

    fn types(&self) -> String {
        let types: Vec<_> =
            self.tensors_by_type.iter().map(|(name, n)| format!("{n} {name}")).collect();
        types.join(", ")
    }
}

/// A value on one line, without control characters.
fn short(value: &Value) -> String {
    match value {
        Value::String(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            let mut shown = text.chars().take(SHOWN_CHARS).collect::<String>();
            shown = format!("\"{}\"", shown.escape_debug());
            if text.chars().nth(SHOWN_CHARS).is_some() {
                shown.push_str(&format!("… ({} characters)", text.chars().count()));
            }
            shown
        }
        Value::Array(array) => {
            let mut shown: Vec<_> = array.values().take(SHOWN).map(|v| short(&v)).collect();
            if array.len() > SHOWN {
                shown.push(format!("… ({} in all)", array.len()));
            }
            format!("[{}]", shown.join(", "))
        }
        other => to_json(other).to_string(),
    }
}

fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::U8(v) => json!(v),
        Value::I8(v) => json!(v),
        Value::U16(v) => json!(v),
        Value::I16(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::I32(v) => json!(v),
        Value::U64(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::F32(v) => json!(v),
        Value::F64(v) => json!(v),
        Value::Bool(v) => json!(v),
        Value::String(bytes) => json!(String::from_utf8_lossy(bytes)),
        Value::Array(array) => {
            json!({"array_of": array.item_type().to_string(), "len": array.len()})
        }
    }
}
