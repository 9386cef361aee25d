//! Tensors of a folder under the names and in the layout of GGUF.

use std::collections::{BTreeMap, HashMap};

use bytes::{Bytes, BytesMut};
use pelton_quant::DType;

use super::config::Config;
use super::family::Family;
use super::float8;
use super::gather::{View, joined};
use super::int8;
use super::mlx::{self, Loaded};
use super::mxfp4;
use super::packed;
use super::rules::{How, Match, Part, Pieces, decimal, find};
use super::stored::{Source, Stored};
use crate::gguf::TensorEntry;
use crate::{Error, Problem};

/// Beginnings of names that no language model uses: vision, audio and speculative parts.
const UNUSED: &[&str] = &[
    "mtp.",
    "visual.",
    "vision_tower.",
    "vision_model.",
    "vision_embed_tokens.",
    "multi_modal_projector.",
    "mm_projector.",
    "connector.",
    "mlp1.",
    "audio_tower.",
    "embed_vision.",
    "vision_embedder.",
    "embed_audio.",
];

/// Ends of the names of the embeddings that an output layer `lm_head` may repeat.
const EMBEDDINGS: &[&str] = &["embed_tokens.weight", "word_embeddings.weight", "wte.weight"];

/// Ends of names of tensors that follow from the configuration: masks, frequencies, positions.
const DERIVED: &[&str] = &[
    ".rotary_emb.inv_freq",
    ".attn.bias",
    ".attn.masked_bias",
    ".attention.bias",
    ".attention.masked_bias",
    ".position_ids",
];

/// Ends of names of FP8 scales, which belong to a weight.
const SCALES: &[&str] = &["_scale_inv", "_scale"];

/// Converts the tensors of a folder.
#[derive(Debug)]
pub(super) struct Converter<'a> {
    family: &'static Family,
    config: &'a Config,
    /// The folder, for errors.
    file: &'a str,
    sources: HashMap<String, Source>,
}

/// A tensor's place in GGUF.
struct Place {
    /// `blk.N.`, or empty.
    prefix: String,
    matched: Match<'static>,
}

/// A tensor before it is sorted into its place.
type Made = Vec<TensorEntry>;

impl<'a> Converter<'a> {
    pub(super) fn new(
        family: &'static Family,
        config: &'a Config,
        file: &'a str,
        sources: HashMap<String, Source>,
    ) -> Self {
        Self { family, config, file, sources }
    }

    /// All tensors, in the order of a forward pass.
    pub(super) fn tensors(&self) -> Result<Made, Error> {
        self.convert().map_err(|problem| Error::new(self.file, problem))
    }

    fn convert(&self) -> Result<Made, Problem> {
        let mut made = Made::new();
        let mut experts: BTreeMap<String, BTreeMap<usize, &Source>> = BTreeMap::new();
        let mut names: Vec<&String> = self.sources.keys().collect();
        names.sort();
        for name in names {
            let source = &self.sources[name];
            let Some(place) = self.place(source)? else { continue };
            let to = format!("{}{}{}", place.prefix, place.matched.rule.to, place.matched.suffix);
            if let (How::Expert, Some(number)) = (place.matched.rule.how, place.matched.expert) {
                experts.entry(to).or_default().insert(number, source);
                continue;
            }
            self.make(source, &place, &to, &mut made)?;
        }
        for (name, experts) in experts {
            made.push(self.stacked(name, &experts)?);
        }
        self.check_ends(&made)?;
        made.sort_by_cached_key(|tensor| (order(&tensor.name), tensor.name.clone()));
        Ok(made)
    }

    /// The place of a tensor, or `None` if it is not used.
    fn place(&self, source: &Source) -> Result<Option<Place>, Problem> {
        let family = self.family;
        // Multimodal models have the language model's tensors under a name of their own.
        let name = source.name.replacen("language_model.", "", 1);
        let name = match packed::module_of(&name) {
            Some(module) => format!("{module}.weight"),
            None => name,
        };
        let unknown = || Problem::UnknownTensor {
            tensor: source.name.clone(),
            architecture: family.architecture,
        };
        let used = |name: &str, list: &[&str]| !list.iter().any(|start| name.starts_with(start));
        let rest = family.prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
        let rest = modern_name(rest.unwrap_or(&name));
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        if !used(&name, UNUSED)
            || !used(&rest, UNUSED)
            || !used(&rest, family.unused)
            || ends(DERIVED)
            || name == "position_ids"
            || (rest == "lm_head.weight" && self.config.tied && self.repeats_embedding(source))
        {
            return Ok(None);
        }
        // The scales of a known weight are used with it.
        let scaled = SCALES.iter().find_map(|end| source.name.strip_suffix(end));
        // those of activations say how others round them
        let ends = mlx::ENDS.iter().chain(&[".input_scale", ".input_zero_point"]);
        let module = ends.into_iter().find_map(|end| source.name.strip_suffix(end));
        if scaled.is_some_and(|weight| self.sources.contains_key(weight))
            || module.is_some_and(|module| self.sources.contains_key(&format!("{module}.weight")))
            || packed::is_part(&self.sources, &source.name)
        {
            return Ok(None);
        }
        let block = rest.strip_prefix(family.block).and_then(|rest| rest.split_once('.'));
        let numbered = block.and_then(|(number, rest)| Some((decimal(number)?, rest)));
        let (prefix, matched) = match numbered {
            // Layers beyond the last predict further tokens.
            Some((number, _)) if number >= self.config.layers => return Ok(None),
            Some((number, rest)) => (format!("blk.{number}."), find(family.blocks, rest)),
            None => (String::new(), find(family.globals, &rest)),
        };
        let matched = matched.ok_or_else(unknown)?;
        Ok(Some(Place { prefix, matched }))
    }

    /// Whether an output layer is the embedding once more. A tied model with another one uses that,
    /// as in transformers.
    fn repeats_embedding(&self, output: &Source) -> bool {
        let is_embedding =
            |source: &&Source| EMBEDDINGS.iter().any(|end| source.name.ends_with(end));
        let embedding = self.sources.values().find(is_embedding);
        embedding.is_some_and(|embedding| embedding.bytes == output.bytes)
    }

    /// The place of a module's weight in GGUF: the prefix of its block, its name, and how it
    /// becomes that.
    pub(super) fn place_of(&self, module: &str) -> Result<(String, String, How), Problem> {
        let source = Source {
            name: format!("{module}.weight"),
            stored: Stored::F32,
            shape: Vec::new(),
            bytes: Bytes::new(),
        };
        match self.place(&source)? {
            Some(Place { prefix, matched }) => {
                let name = format!("{prefix}{}{}", matched.rule.to, matched.suffix);
                Ok((prefix, name, matched.rule.how))
            }
            None => Err(source.fault("is no part of the model".to_owned())),
        }
    }

    fn make(
        &self,
        source: &Source,
        place: &Place,
        to: &str,
        made: &mut Made,
    ) -> Result<(), Problem> {
        let fault = |fault: String| source.fault(fault);
        let is_scalar = source.shape.is_empty() && !matches!(place.matched.rule.how, How::Squeeze);
        if source.shape.contains(&0) || is_scalar {
            return Err(fault(format!(
                "has shape {:?}, expected at least one element and one dimension",
                source.shape
            )));
        }
        let rule = place.matched.rule;
        match rule.how {
            How::Mxfp4Scales => return Ok(()),
            How::Mxfp4Blocks(pieces) => return self.mxfp4(source, &place.prefix, pieces, made),
            _ => {}
        }
        let in_order = matches!(rule.how, How::Keep | How::Expert);
        let Loaded { shape, dtype, bytes } = self.loaded(source, in_order)?;
        if dtype.block_len() > 1 {
            made.push(source.entry(to.to_owned(), dtype, &shape, bytes)?);
            return Ok(());
        }
        let parts = match rule.how {
            How::Squeeze | How::NegExp(None) => {
                let shape: Vec<_> = shape.iter().copied().filter(|dim| *dim != 1).collect();
                let shape = if shape.is_empty() { vec![1] } else { shape };
                vec![Part::of("", View::new(&shape))]
            }
            How::Parts(transform) | How::NegExp(Some(transform)) => transform(self.config, &shape)
                .map_err(|expected| fault(format!("has shape {shape:?}, expected {expected}")))?,
            _ => vec![Part::of("", View::new(&shape))],
        };
        for part in parts {
            let name = match part.to {
                "" => to.to_owned(),
                own => format!("{}{own}", place.prefix),
            };
            let bytes = joined(&part.views, &bytes, dtype.block_bytes());
            let (dtype, bytes) = match rule.how {
                How::NegExp(_) => (DType::F32, mapped(dtype, &bytes, |value| -value.exp())),
                How::Keep if self.is_norm_minus_one(source) => {
                    (DType::F32, mapped(dtype, &bytes, |value| value + 1.0))
                }
                _ => (dtype, bytes),
            };
            made.push(source.entry(name, dtype, &part.shape, bytes)?);
        }
        Ok(())
    }

    /// Whether a tensor is a norm's weight, stored minus 1. The norm of linear attention is not.
    fn is_norm_minus_one(&self, source: &Source) -> bool {
        let end = self.family.minus_one;
        !end.is_empty()
            && source.name.ends_with(end)
            && !source.name.ends_with("linear_attn.norm.weight")
    }

    /// A tensor in a type of checkpoints: FP8 is expanded, and the codes of MLX, AWQ, GPTQ and
    /// compressed-tensors become blocks if `blocks` allows it.
    fn loaded(&self, source: &Source, blocks: bool) -> Result<Loaded, Problem> {
        let fault = |fault: String| source.fault(fault);
        let codes = packed::loaded(self.config, &self.sources, source, blocks);
        if let Some(loaded) = codes.map_err(fault)? {
            return Ok(loaded);
        }
        let shape = source.shape.clone();
        if let Some(dtype) = source.stored.dtype() {
            return Ok(Loaded { shape, dtype, bytes: source.bytes.clone() });
        }
        let quantized = mlx::loaded(self.config, &self.sources, source, blocks);
        if let Some(loaded) = quantized.map_err(fault)? {
            return Ok(loaded);
        }
        let scale =
            SCALES.iter().find_map(|end| self.sources.get(&format!("{}{end}", source.name)));
        if source.stored == Stored::I8 && scale.is_some() {
            if self.sources.contains_key(&format!("{}_zero_point", source.name)) {
                return Err(fault("has zero points of 8 bits, expected symmetric weights".into()));
            }
            let (dtype, bytes) = int8::expanded(source, scale, blocks).map_err(fault)?;
            return Ok(Loaded { shape, dtype, bytes });
        }
        if !matches!(source.stored, Stored::F8E4M3 | Stored::F8E5M2) {
            let found = source.stored;
            return Err(fault(format!("has type {found:?}, expected F32, F16, BF16 or FP8")));
        }
        let bytes = float8::expanded(source, scale).map_err(fault)?;
        Ok(Loaded { shape, dtype: DType::BF16, bytes })
    }

    /// The tensors of all experts as one, `[experts, …]`.
    fn stacked(
        &self,
        name: String,
        experts: &BTreeMap<usize, &Source>,
    ) -> Result<TensorEntry, Problem> {
        let Some((_, first)) = experts.first_key_value() else {
            return Err(Problem::MissingTensor { tensor: name, expected: Vec::new() });
        };
        let missing = experts.keys().zip(0..).find(|(number, expected)| **number != *expected);
        if let Some((_, number)) = missing {
            let fault = format!("has no counterpart of expert {number}, expected all experts");
            return Err(first.fault(fault));
        }
        if first.shape.contains(&0) || first.shape.is_empty() {
            return Err(first.fault(format!("has shape {:?}", first.shape)));
        }
        let mut bytes = BytesMut::new();
        let mut of_first: Option<(DType, Vec<usize>)> = None;
        for expert in experts.values() {
            let own = self.loaded(expert, true)?;
            let (dtype, shape) = of_first.get_or_insert_with(|| {
                bytes.reserve(own.bytes.len() * experts.len());
                (own.dtype, own.shape.clone())
            });
            if own.dtype != *dtype || own.shape != *shape {
                let fault = format!(
                    "has type {} and shape {:?}, expected {dtype} and {shape:?} as the first expert",
                    own.dtype, own.shape
                );
                return Err(expert.fault(fault));
            }
            bytes.extend_from_slice(&own.bytes);
        }
        let Some((dtype, of_expert)) = of_first else {
            return Err(Problem::MissingTensor { tensor: name, expected: Vec::new() });
        };
        let mut shape = vec![experts.len()];
        shape.extend(of_expert);
        first.entry(name, dtype, &shape, bytes.freeze())
    }

    /// MXFP4 codes `[experts, rows, blocks, 16]` with their scales `[experts, rows, blocks]`.
    fn mxfp4(
        &self,
        source: &Source,
        prefix: &str,
        pieces: Pieces,
        made: &mut Made,
    ) -> Result<(), Problem> {
        let fault = |fault: String| source.fault(fault);
        let stem = source.name.strip_suffix("_blocks").unwrap_or(&source.name);
        let name = format!("{stem}_scales");
        let scales = self.sources.get(&name).ok_or_else(|| fault(format!("lacks {name:?}")))?;
        let &[experts, rows, blocks, 16] = source.shape.as_slice() else {
            let found = &source.shape;
            return Err(fault(format!(
                "has shape {found:?}, expected [experts, rows, blocks, 16]"
            )));
        };
        if source.stored != Stored::U8 || scales.stored != Stored::U8 {
            return Err(fault("has another type, expected U8 for codes and scales".to_owned()));
        }
        if scales.shape != [experts, rows, blocks] {
            let found = &scales.shape;
            return Err(scales
                .fault(format!("has shape {found:?}, expected [{experts}, {rows}, {blocks}]")));
        }
        let codes = View::new(&source.shape);
        let exponents = View::new(&scales.shape);
        let of: Vec<(&str, View, View)> = match pieces {
            Pieces::One(to) => vec![(to, codes, exponents)],
            Pieces::EvenOdd(even, odd) => {
                if !rows.is_multiple_of(2) {
                    return Err(fault(format!("has {rows} rows, expected an even number")));
                }
                vec![
                    (even, codes.clone().every(1, 0, 2), exponents.clone().every(1, 0, 2)),
                    (odd, codes.every(1, 1, 2), exponents.every(1, 1, 2)),
                ]
            }
        };
        for (to, codes, exponents) in of {
            let shape = exponents.shape();
            let codes = codes.take(&source.bytes, 1);
            let exponents = exponents.take(&scales.bytes, 1);
            let (dtype, bytes) = mxfp4::blocks(&codes, &exponents);
            let shape = [shape[0], shape[1], blocks * mxfp4::BLOCK];
            made.push(source.entry(format!("{prefix}{to}"), dtype, &shape, bytes)?);
        }
        Ok(())
    }

    /// Checks that the embedding is there, and the output layer if the configuration says so.
    fn check_ends(&self, made: &[TensorEntry]) -> Result<(), Problem> {
        let has = |name: &str| made.iter().any(|tensor| tensor.name == name);
        let class = &self.config.class;
        let generates = ["ForCausalLM", "LMHeadModel", "ForConditionalGeneration"]
            .iter()
            .any(|end| class.ends_with(end));
        let missing = if !has("token_embd.weight") {
            "token_embd.weight"
        } else if generates && self.config.untied && !has("output.weight") {
            "output.weight"
        } else {
            return Ok(());
        };
        let expected = vec![self.config.hidden];
        Err(Problem::MissingTensor { tensor: missing.to_owned(), expected })
    }
}

/// A name with the endings of PyTorch 0.4's layer norms replaced by today's.
fn modern_name(name: &str) -> String {
    if let Some(stem) = name.strip_suffix(".gamma") {
        return format!("{stem}.weight");
    }
    if let Some(stem) = name.strip_suffix(".beta") {
        return format!("{stem}.bias");
    }
    name.to_owned()
}

/// All elements, changed by `change`, as f32.
fn mapped(dtype: DType, bytes: &Bytes, change: fn(f32) -> f32) -> Bytes {
    let mut values = vec![0.0; bytes.len() / dtype.block_bytes()];
    // The size was checked when the file was opened.
    let decoded = pelton_quant::decode(dtype, bytes, &mut values);
    debug_assert!(decoded.is_ok(), "{decoded:?}");
    values.into_iter().flat_map(|value| change(value).to_le_bytes()).collect()
}

/// Sort key of a tensor by its use in a forward pass: the embedding, the blocks, the others.
fn order(name: &str) -> usize {
    let block = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    match block.and_then(|(number, _)| number.parse::<usize>().ok()) {
        Some(number) => number.saturating_add(1),
        None if name == "token_embd.weight" => 0,
        None => usize::MAX,
    }
}
