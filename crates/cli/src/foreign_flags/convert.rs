//! Values of other programs as Pelton's.

use std::ffi::{OsStr, OsString};

use pelton::KvElement;
use serde_json::Value;

/// Converts a value for an option of Pelton.
pub(super) type Convert = fn(&str, &'static str) -> Became;

/// The result of a conversion.
pub(super) enum Became {
    /// Words of Pelton; none where the default means the same.
    Words(Vec<String>),
    Model(String),
    HubFile(String),
    Argument(String),
    /// No effect.
    Noted,
    /// The value is wrong; what was expected.
    Expected(String),
    /// Pelton has no such value; the hint.
    Refused(String),
}

use Became::{Noted, Refused, Words};

fn one(own: &str, value: impl std::fmt::Display) -> Became {
    Words(vec![format!("{own}={value}")])
}

fn none() -> Became {
    Words(Vec::new())
}

pub(super) fn expected(what: &str) -> Became {
    Became::Expected(what.to_owned())
}

fn hint(text: &str) -> Became {
    Refused(text.to_owned())
}

/// The number of requests that run at the same time; -1 leaves it to the program.
pub(super) fn parallel(value: &str, own: &'static str) -> Became {
    match value.parse::<i64>() {
        Ok(-1) => none(),
        Ok(count) if count > 0 => one(own, count),
        _ => expected("a number from 1 on, or -1"),
    }
}

/// A truth value of any of these programs.
pub(super) fn truth(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "enabled" | "yes" | "y" | "t" => Some(true),
        "false" | "0" | "off" | "disabled" | "no" | "n" | "f" => Some(false),
        _ => None,
    }
}

/// A flag of Pelton where the value is true.
pub(super) fn if_true(value: &str, own: &'static str) -> Became {
    match truth(value) {
        Some(true) => Words(vec![own.to_owned()]),
        Some(false) => none(),
        None => expected("True or False"),
    }
}

/// A flag of Pelton where the value is false.
pub(super) fn if_false(value: &str, own: &'static str) -> Became {
    match truth(value) {
        Some(false) => Words(vec![own.to_owned()]),
        Some(true) => none(),
        None => expected("True or False"),
    }
}

/// A number, of which a negative one is the default.
pub(super) fn from_zero(value: &str, own: &'static str) -> Became {
    match value.parse::<i64>() {
        Ok(number) if number < 0 => none(),
        _ => one(own, value),
    }
}

/// A number, of which zero and a negative one are the default.
pub(super) fn positive(value: &str, own: &'static str) -> Became {
    match value.parse::<i64>() {
        Ok(number) if number <= 0 => none(),
        _ if value == "None" => none(),
        _ => one(own, value),
    }
}

/// A length of the context: with `k` for thousands and `K` for 1024, as vLLM has it; auto and -1
/// for the model's own.
pub(super) fn context(value: &str, own: &'static str) -> Became {
    let scaled = |digits: &str, factor: f64| {
        digits.parse::<f64>().ok().map(|number| (number * factor) as u64)
    };
    let number = match value {
        "auto" | "-1" => Some(0),
        _ => match value.char_indices().last() {
            Some((at, 'k')) => scaled(&value[..at], 1e3),
            Some((at, 'K')) => scaled(&value[..at], 1024.0),
            Some((at, 'm')) => scaled(&value[..at], 1e6),
            Some((at, 'M')) => scaled(&value[..at], 1024.0 * 1024.0),
            _ => value.parse().ok(),
        },
    };
    match number {
        Some(number) => one(own, number),
        None => expected("a number of tokens, or 0 for the model's own context"),
    }
}

/// Layers on the GPU.
pub(super) fn gpu_layers(value: &str, own: &'static str) -> Became {
    match value {
        "0" => one("--device", "cpu"),
        "all" | "auto" => none(),
        _ => match value.parse::<i32>() {
            Ok(layers) if layers < 0 => none(),
            Ok(layers) => one(own, layers),
            Err(_) => expected("0 for the CPU, or layers"),
        },
    }
}

/// The type of keys and values.
pub(super) fn kv(value: &str, own: &'static str) -> Became {
    let value = value.to_ascii_lowercase();
    let name = match value.as_str() {
        "auto" => return none(),
        "float16" | "half" => "f16",
        "float32" | "float" => "f32",
        "bfloat16" => "bf16",
        name => name,
    };
    match name.parse::<KvElement>() {
        Ok(known) => one(own, known),
        Err(_) => {
            expected(&format!("one of {}", KvElement::ALL.map(|kv| kv.to_string()).join(", ")))
        }
    }
}

/// The type of keys and values as vLLM names it.
pub(super) fn kv_of_vllm(value: &str, own: &'static str) -> Became {
    match value {
        known if known.starts_with("fp8") || known.starts_with("int8") => one(own, "q8_0"),
        _ => kv(value, own),
    }
}

/// A repository of Hugging Face with a quantization perhaps.
pub(super) fn hub(value: &str, own: &'static str) -> Became {
    let prefixes = ["hf:", "hf.co/", "huggingface.co/"];
    let has_prefix = value.contains("://") || prefixes.iter().any(|p| value.starts_with(p));
    let name = if has_prefix { value.to_owned() } else { format!("hf:{value}") };
    match own {
        "" => Became::Model(name),
        own => one(own, name),
    }
}

/// A file of the repository that is the model.
pub(super) fn file_of_hub(value: &str, _: &'static str) -> Became {
    Became::HubFile(value.to_owned())
}

/// The address of a file of a repository; `None` for a model of another place.
pub(super) fn hub_file(model: &OsStr, file: &OsStr) -> Option<OsString> {
    let name = model.to_str()?.strip_prefix("hf:")?;
    let name = name.split(':').next().unwrap_or(name);
    Some(format!("https://huggingface.co/{name}/blob/main/{}", file.to_str()?).into())
}

/// Devices as ggml, PyTorch and Pelton name them.
pub(super) fn device(value: &str, own: &'static str) -> Became {
    let parts: Option<Vec<String>> = value.split(',').map(one_device).collect();
    match parts {
        Some(parts) if parts == ["auto"] => none(),
        Some(parts) => one(own, parts.join(",")),
        None => expected("auto, cpu, gpu or gpu:N, as `pelton devices` lists them"),
    }
}

fn one_device(text: &str) -> Option<String> {
    let lower = text.trim().to_ascii_lowercase();
    if matches!(lower.as_str(), "none" | "cpu") {
        return Some("cpu".to_owned());
    }
    if lower == "auto" || lower == "gpu" || lower.starts_with("gpu:") {
        return Some(lower);
    }
    let kinds = ["cuda", "vulkan", "rocm", "hip", "sycl", "metal", "mtl", "xpu", "mps"];
    let rest = kinds.iter().find_map(|kind| lower.strip_prefix(kind))?;
    match rest.trim_start_matches(':') {
        "" => Some("gpu".to_owned()),
        number => number.parse::<u16>().ok().map(|number| format!("gpu:{number}")),
    }
}

/// The number of a GPU; -1 is for none, and 0 is the default.
pub(super) fn gpu_number(value: &str, own: &'static str) -> Became {
    match value.parse::<i32>() {
        Ok(0) => none(),
        Ok(number) if number < 0 => one(own, "cpu"),
        Ok(number) => one(own, format!("gpu:{number}")),
        Err(_) => device(value, own),
    }
}

/// A number of GPUs that hold a model together.
pub(super) fn gpus(value: &str, own: &'static str) -> Became {
    match value.parse::<u16>() {
        Ok(0 | 1) => none(),
        Ok(count) if count <= 16 => {
            let all: Vec<String> = (0..count).map(|number| format!("gpu:{number}")).collect();
            one(own, all.join(","))
        }
        _ => expected("a number of GPUs, at most 16"),
    }
}

/// Proportions of a model on several GPUs.
pub(super) fn proportions(value: &str, own: &'static str) -> Became {
    let parts: Option<Vec<f64>> = value.split([',', '/']).map(|part| part.parse().ok()).collect();
    let Some(parts) = parts else { return expected("proportions such as 1,1") };
    let used: Vec<String> = parts
        .iter()
        .enumerate()
        .filter(|(_, part)| **part > 0.0)
        .map(|(number, _)| format!("gpu:{number}"))
        .collect();
    let most = parts.iter().copied().fold(0.0, f64::max);
    match used.is_empty() {
        true => none(),
        false if parts.iter().all(|&part| part == 0.0 || part == most) => one(own, used.join(",")),
        false => hint("--device gpu:0,gpu:1 with --split 20,12 gives each GPU this many layers"),
    }
}

/// How a model is split over GPUs.
pub(super) fn split_mode(value: &str, _: &'static str) -> Became {
    match value {
        // the texts are those of any split
        "none" | "layer" | "row" | "tensor" => Noted,
        _ => expected("none, layer, row or tensor"),
    }
}

/// Memory in MiB that stays free, of which the first GPU's counts.
pub(super) fn mebibytes(value: &str, own: &'static str) -> Became {
    match value.split(',').next().and_then(|first| first.parse::<u64>().ok()) {
        Some(number) => one(own, format!("{number}M")),
        None => expected("a number of MiB"),
    }
}

/// Memory in GiB, or bytes with a suffix.
pub(super) fn share_of_memory(value: &str, own: &'static str) -> Became {
    match value.parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1.0 => {
            one(own, format!("{}%", (share * 100.0).round()))
        }
        _ => expected("a number above 0 and up to 1"),
    }
}

/// A list with commas, a word for each element.
pub(super) fn commas(value: &str, own: &'static str) -> Became {
    Words(value.split(',').map(|one| format!("{own}={}", one.trim())).collect())
}

/// Names of a model; those of Pelton's form are left as they are.
pub(super) fn aliases(value: &str, own: &'static str) -> Became {
    match value.contains('=') {
        true => one(own, value),
        false => commas(value, own),
    }
}

/// API keys.
pub(super) fn keys(value: &str, own: &'static str) -> Became {
    match value.split(',').any(|key| key.trim().is_empty()) {
        true => expected("a key, or no such option to serve without keys"),
        false => commas(value, own),
    }
}

/// Adapters with scales after a colon.
pub(super) fn scaled(value: &str, own: &'static str) -> Became {
    let each = |one: &str| match one.rsplit_once(':') {
        Some((path, scale)) if scale.parse::<f32>().is_ok() => format!("{own}={path}={scale}"),
        _ => format!("{own}={one}"),
    };
    Words(value.split(',').map(each).collect())
}

/// vLLM's adapters: NAME=PATH, or an object with both.
pub(super) fn modules(value: &str, own: &'static str) -> Became {
    let object: Option<Value> = serde_json::from_str(value).ok();
    let of_object = object.as_ref().and_then(|object| object["path"].as_str());
    match of_object.or_else(|| value.split_once('=').map(|(_, path)| path)) {
        Some(path) => one(own, path),
        None => expected("NAME=PATH, or a JSON object with name and path"),
    }
}

/// Samplers with semicolons between them.
pub(super) fn samplers(value: &str, own: &'static str) -> Became {
    one(own, value.replace(';', ","))
}

/// Samplers by letters.
pub(super) fn sampler_letters(value: &str, own: &'static str) -> Became {
    let name = |letter| {
        Some(match letter {
            'e' => "penalties",
            'd' => "dry",
            's' => "top_n_sigma",
            'k' => "top_k",
            'y' => "typical_p",
            'p' => "top_p",
            'm' => "min_p",
            'x' => "xtc",
            't' => "temperature",
            _ => return None,
        })
    };
    match value.chars().map(name).collect::<Option<Vec<_>>>() {
        Some(names) => one(own, names.join(",")),
        None => expected("letters of e, d, s, k, y, p, m, x and t"),
    }
}

/// A bias after the sign, as in 15043+1; Pelton's has = before it.
pub(super) fn bias(value: &str, own: &'static str) -> Became {
    if value.contains('=') {
        return one(own, value);
    }
    match value.find(['+', '-']) {
        Some(at) if at > 0 => one(own, format!("{}={}", &value[..at], &value[at..])),
        _ => expected("an id and a bias, as in 15043+1"),
    }
}

/// Whether a model reasons.
pub(super) fn reasoning(value: &str, own: &'static str) -> Became {
    match truth(value) {
        _ if value == "auto" => none(),
        Some(on) if own == "--think" => one(own, on),
        Some(on) => one(own, serde_json::json!({"enable_thinking": on})),
        None => expected("on, off or auto"),
    }
}

/// How much a model reasons.
pub(super) fn reasoning_effort(value: &str, own: &'static str) -> Became {
    match value {
        "default" => none(),
        level if own == "--reasoning-effort" => one(own, level),
        level => one(own, serde_json::json!({"reasoning_effort": level})),
    }
}

/// A limit of reasoning.
pub(super) fn reasoning_budget(value: &str, own: &'static str) -> Became {
    match value {
        "-1" => none(),
        "0" => reasoning("off", own),
        _ => hint("--reasoning off ends reasoning; a number of tokens does not limit it"),
    }
}

/// Where reasoning stands in an answer.
pub(super) fn reasoning_format(value: &str, _: &'static str) -> Became {
    match value {
        "auto" | "deepseek" => Noted,
        _ => hint("answers have reasoning in reasoning_content, apart from the text"),
    }
}

/// Templates by llama.cpp's names.
pub(super) fn template(value: &str, own: &'static str) -> Became {
    match value {
        "phi3" | "phi4" => one(own, "phi"),
        "mistral-v1" | "mistral-v3" => one(own, "mistral"),
        _ => one(own, value),
    }
}

/// A duration as Go writes it, in whole seconds; a negative one is for no limit.
pub(super) fn duration(value: &str, own: &'static str) -> Became {
    match seconds(value) {
        Some(seconds) if seconds < 0.0 => none(),
        Some(seconds) => one(own, seconds.ceil()),
        None => expected("a time such as 5m, 24h, 300 for seconds, or -1 for no limit"),
    }
}

fn seconds(text: &str) -> Option<f64> {
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then_some(number);
    }
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    let mut sum = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let units =
            [("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];
        let (unit, factor) = units.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        sum += number * factor;
    }
    Some(sign * sum)
}

/// Ollama's address: a host, a port or both, with a scheme perhaps.
pub(super) fn address(value: &str, _: &'static str) -> Became {
    let (port, rest) = match value.split_once("://") {
        Some(("http", rest)) => (80, rest),
        Some(("https", rest)) => (443, rest),
        Some(_) => return expected("HOST:PORT"),
        None => (11434, value),
    };
    let rest = rest.split('/').next().unwrap_or(rest);
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, digits)) if !host.contains(':') || host.ends_with(']') => {
            match digits.parse::<u16>() {
                Ok(port) => (host, port),
                Err(_) => return expected("HOST:PORT with a port up to 65535"),
            }
        }
        _ => (rest, port),
    };
    let host = host.trim_matches(['[', ']']);
    if host.contains(':') && host.parse::<std::net::Ipv6Addr>().is_err() {
        return expected("HOST:PORT, or [IPV6]:PORT");
    }
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    Words(vec![format!("--host={host}"), format!("--port={port}")])
}

/// Draft tokens of llama.cpp's older option, or Pelton's source of drafts.
pub(super) fn draft(value: &str, own: &'static str) -> Became {
    match value.parse::<i64>() {
        Ok(_) => Noted,
        Err(_) => one(own, value),
    }
}

/// Kinds of speculative decoding.
pub(super) fn speculation(value: &str, _: &'static str) -> Became {
    match value {
        "none" => one("--speculate", "off"),
        "draft-mtp" => one("--draft", "mtp"),
        "draft-simple" => Noted,
        known if known.starts_with("ngram") => Noted,
        _ => hint("--draft MODEL drafts with a model, --draft mtp with the head of the file"),
    }
}

/// vLLM's speculative decoding, an object.
pub(super) fn speculation_of_vllm(value: &str, _: &'static str) -> Became {
    let Ok(object) = serde_json::from_str::<Value>(value) else {
        return expected("a JSON object");
    };
    match (object["method"].as_str(), object["model"].as_str()) {
        (Some("ngram"), _) => Noted,
        (Some("mtp" | "deepseek_mtp" | "qwen3_next_mtp"), _) => one("--draft", "mtp"),
        (None | Some("draft_model"), Some(model)) => one("--draft", model),
        _ => hint("--draft MODEL drafts with a model, --draft mtp with the head of the file"),
    }
}

/// The norm by which embeddings are divided.
pub(super) fn norm(value: &str, own: &'static str) -> Became {
    match (value, own) {
        ("2", _) => none(),
        ("-1", own) if !own.is_empty() => Words(vec![own.to_owned()]),
        _ => hint("embeddings are divided by their Euclidean norm, or by none"),
    }
}

/// The pooling of embeddings; the file of a model that ranks documents names its own.
pub(super) fn pooling(value: &str, own: &'static str) -> Became {
    match value {
        "rank" => Noted,
        _ => one(own, value),
    }
}

/// Origins of pages: with commas between them, or a list in JSON; `localhost` alone is always let
/// in.
pub(super) fn origins(value: &str, own: &'static str) -> Became {
    match serde_json::from_str::<Vec<String>>(value) {
        Ok(list) => Words(list.iter().map(|origin| format!("{own}={origin}")).collect()),
        Err(_) if value == "localhost" => none(),
        Err(_) => commas(value, own),
    }
}

/// The address of a server.
pub(super) fn host(value: &str, own: &'static str) -> Became {
    match value.contains(',') {
        true => hint("a server listens on one address: --host 0.0.0.0 for all"),
        false if value.ends_with(".sock") && !value.contains(':') => {
            one(own, format!("unix:{value}"))
        }
        false => one(own, value),
    }
}

/// The step of windows that overlap, of which there is none.
pub(super) fn no_stride(value: &str, _: &'static str) -> Became {
    match value {
        "0" => none(),
        _ => hint("windows do not overlap: their second half is scored"),
    }
}
