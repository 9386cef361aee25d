//! A random model of Whisper's form, whose weights a script in another language makes too.

use pelton_quant::DType;
use pelton_weights::{Array, Checkpoint, GgufWriter, ValueType};

use crate::Random;

/// The shape of a random model of Whisper's form. Heads have 64 elements, as in all published
/// models.
#[derive(Clone, Debug)]
pub struct WhisperSpec {
    /// Width of the residual stream, a multiple of 64.
    pub width: usize,
    /// Layers of the encoder.
    pub encoder_layers: usize,
    /// Layers of the decoder.
    pub decoder_layers: usize,
    /// Positions of a window; it has twice as many frames.
    pub positions: usize,
    /// Tokens of a sequence.
    pub context: usize,
    /// Values of a frame.
    pub mels: usize,
    /// Tokens.
    pub vocab: usize,
    /// Layer and head of those that follow the audio.
    pub alignment_heads: Vec<[usize; 2]>,
    /// The format of the matrices of layers and of the embedding. Convolutions are F16 if it is not
    /// F32.
    pub dtype: DType,
    /// The seed of the random numbers.
    pub seed: u64,
    /// Whether it has the vocabulary of letters, and embeddings by which texts of letters end.
    pub has_letters: bool,
}

/// Tokens of texts in the vocabulary of letters: all bytes, then each letter behind a space.
const LETTERS: u32 = 256 + 26;
/// The special tokens before the times.
const SPECIALS: [&str; 12] = [
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|en|>",
    "<|zh|>",
    "<|de|>",
    "<|es|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|startoflm|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|notimestamps|>",
];
/// Times of a window.
const TIMES: u32 = 1501;

impl Default for WhisperSpec {
    /// The model of `fixtures/speech/make_model.py`.
    fn default() -> Self {
        Self {
            width: 128,
            encoder_layers: 2,
            decoder_layers: 2,
            positions: 1500,
            context: 448,
            mels: 80,
            vocab: 51_865,
            alignment_heads: vec![[1, 0], [0, 1]],
            dtype: DType::F32,
            seed: 1,
            has_letters: false,
        }
    }
}

/// A tensor, and the mean and the greatest deviation of its uniform numbers.
struct Tensor {
    name: String,
    shape: Vec<usize>,
    mean: f32,
    deviation: f32,
}

impl WhisperSpec {
    /// The model of `crates/cli/tests/speech/make_expected.py`, which writes letters in four
    /// languages.
    pub fn of_letters(seed: u64) -> Self {
        Self {
            encoder_layers: 1,
            decoder_layers: 1,
            vocab: LETTERS as usize + SPECIALS.len() + TIMES as usize,
            alignment_heads: vec![[0, 0], [0, 1]],
            seed,
            has_letters: true,
            ..Self::default()
        }
    }

    /// The model as an open GGUF file.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint::from_bytes("random Whisper model", self.file()).unwrap()
    }

    /// The bytes of the model's GGUF file.
    pub fn file(&self) -> Vec<u8> {
        let mut writer = GgufWriter::new();
        writer.set("general.architecture", "whisper").unwrap();
        let stacks = [
            ("encoder", self.positions, self.encoder_layers),
            ("decoder", self.context, self.decoder_layers),
        ];
        for (stack, positions, layers) in stacks {
            for (key, value) in [
                ("context_length", positions),
                ("embedding_length", self.width),
                ("block_count", layers),
                ("attention.head_count", self.width / 64),
            ] {
                writer.set(&format!("whisper.{stack}.{key}"), value as u32).unwrap();
            }
        }
        writer.set("whisper.encoder.mels_count", self.mels as u32).unwrap();
        let heads: Vec<i32> = self.alignment_heads.iter().flatten().map(|&of| of as i32).collect();
        let heads = Array::new(ValueType::I32, heads).unwrap();
        writer.set("whisper.alignment_heads", heads).unwrap();
        match self.has_letters {
            true => set_letters(&mut writer),
            false => writer.set("tokenizer.ggml.model", "no_vocab").unwrap(),
        }
        let tensors = self.tensors();
        let dtype = |tensor: &Tensor| match (tensor.shape.len(), self.dtype) {
            (_, DType::F32) | (1, _) => DType::F32,
            (3, _) => DType::F16,
            _ if tensor.name.ends_with("positional_embedding") => DType::F32,
            _ => self.dtype,
        };
        for tensor in &tensors {
            writer.declare(&tensor.name, dtype(tensor), &tensor.shape).unwrap();
        }
        let mut body = writer.begin(Vec::new()).unwrap();
        for (index, tensor) in (0..).zip(&tensors) {
            let mut values = uniform(1000 * self.seed + index, tensor);
            if self.has_letters && tensor.name == "decoder.token_embedding.weight" {
                let rows = values.chunks_exact_mut(self.width);
                (0..)
                    .zip(rows)
                    .for_each(|(token, row)| row.iter_mut().for_each(|x| *x *= scale(token)));
            }
            let mut bytes = Vec::new();
            pelton_quant::encode(dtype(tensor), &values, &mut bytes).unwrap();
            body.write(&bytes).unwrap();
        }
        body.finish().unwrap()
    }

    /// The features `[2 · positions, mels]` of a window, -1 to 1.
    pub fn features(&self, seed: u64) -> Vec<f32> {
        let shape = vec![self.mels, 2 * self.positions];
        uniform(seed, &Tensor { name: String::new(), shape, mean: 0.0, deviation: 1.0 })
    }

    /// The tensors in the order of their seeds.
    fn tensors(&self) -> Vec<Tensor> {
        let width = self.width;
        let mut all = Vec::new();
        let mut add = |name: String, shape: &[usize], mean: f32, deviation: f32| {
            all.push(Tensor { name, shape: shape.to_vec(), mean, deviation });
        };
        // uniform numbers whose products with elements of deviation 1 have deviation `gain`
        let of = |inputs: usize, gain: f64| (gain * (3.0 / inputs as f64).sqrt()) as f32;
        for (name, inputs) in [("conv1", self.mels), ("conv2", width)] {
            let shape = [3, inputs, width];
            add(format!("encoder.{name}.weight"), &shape, 0.0, of(3 * inputs, 1.5));
            add(format!("encoder.{name}.bias"), &[width], 0.0, 0.1);
        }
        add("encoder.positional_embedding".into(), &[width, self.positions], 0.0, 0.5);
        add("decoder.positional_embedding".into(), &[width, self.context], 0.0, 0.5);
        add("decoder.token_embedding.weight".into(), &[width, self.vocab], 0.0, 0.5);
        let stacks = [("encoder", self.encoder_layers), ("decoder", self.decoder_layers)];
        for (stack, layers) in stacks {
            for layer in 0..layers {
                let block = format!("{stack}.blocks.{layer}");
                let both = [("attn", "attn_ln"), ("cross_attn", "cross_attn_ln")];
                for (part, norm) in &both[..if stack == "encoder" { 1 } else { 2 }] {
                    for (matrix, gain) in
                        [("query", 2.2), ("key", 2.2), ("value", 1.0), ("out", 3.0)]
                    {
                        let name = format!("{block}.{part}.{matrix}");
                        add(format!("{name}.weight"), &[width, width], 0.0, of(width, gain));
                        if matrix != "key" {
                            add(format!("{name}.bias"), &[width], 0.0, 0.1);
                        }
                    }
                    add(format!("{block}.{norm}.weight"), &[width], 1.0, 0.2);
                    add(format!("{block}.{norm}.bias"), &[width], 0.0, 0.1);
                }
                for (name, inputs, outputs) in
                    [("mlp.0", width, 4 * width), ("mlp.2", 4 * width, width)]
                {
                    let name = format!("{block}.{name}");
                    add(format!("{name}.weight"), &[inputs, outputs], 0.0, of(inputs, 1.0));
                    add(format!("{name}.bias"), &[outputs], 0.0, 0.1);
                }
                add(format!("{block}.mlp_ln.weight"), &[width], 1.0, 0.2);
                add(format!("{block}.mlp_ln.bias"), &[width], 0.0, 0.1);
            }
        }
        for norm in ["encoder.ln_post", "decoder.ln"] {
            add(format!("{norm}.weight"), &[width], 1.0, 0.2);
            add(format!("{norm}.bias"), &[width], 0.0, 0.1);
        }
        all
    }
}

/// The factor of a token's embedding in a model of letters.
fn scale(token: u32) -> f32 {
    match token {
        0..256 if !(token as u8).is_ascii_alphanumeric() && token != 32 => 0.05,
        LETTERS => 1.45,
        _ if token > LETTERS + 11 => 0.42,
        _ => 1.0,
    }
}

/// Sets the vocabulary of letters.
fn set_letters(writer: &mut GgufWriter) {
    let is_plain = |byte: &u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    // GPT-2's printable character of each byte
    let others: Vec<u8> = (0..=255).filter(|byte| !is_plain(byte)).collect();
    let shown = |byte: u8| match others.iter().position(|&other| other == byte) {
        Some(at) => char::from_u32(256 + at as u32).unwrap(),
        None => char::from(byte),
    };
    let space = shown(b' ');
    let texts = (0..=255).map(|byte| shown(byte).to_string());
    let texts = texts.chain(('a'..='z').map(|letter| format!("{space}{letter}")));
    let times = (0..TIMES).map(|i| format!("<|{}.{:02}|>", i / 50, i % 50 * 2));
    let tokens: Vec<String> =
        texts.chain(SPECIALS.iter().map(|text| text.to_string())).chain(times).collect();
    let kinds: Vec<i32> =
        (0..tokens.len()).map(|id| if id < LETTERS as usize { 1 } else { 3 }).collect();
    let merges: Vec<String> = ('a'..='z').map(|letter| format!("{space} {letter}")).collect();
    writer.set("tokenizer.ggml.model", "gpt2").unwrap();
    writer.set("tokenizer.ggml.pre", "gpt-2").unwrap();
    let strings =
        |texts: &[String]| Array::new(ValueType::String, texts.iter().map(String::as_str)).unwrap();
    writer.set("tokenizer.ggml.tokens", strings(&tokens)).unwrap();
    writer.set("tokenizer.ggml.token_type", Array::new(ValueType::I32, kinds).unwrap()).unwrap();
    writer.set("tokenizer.ggml.merges", strings(&merges)).unwrap();
    writer.set("tokenizer.ggml.bos_token_id", LETTERS + 1).unwrap();
    writer.set("tokenizer.ggml.eos_token_id", LETTERS).unwrap();
    writer.set("tokenizer.ggml.add_bos_token", false).unwrap();
}

/// Uniform numbers: 24 random bits each.
fn uniform(seed: u64, tensor: &Tensor) -> Vec<f32> {
    let mut random = Random::new(seed);
    let len = tensor.shape.iter().product();
    let unit = |bits: u64| (bits >> 40) as f32 / (1u64 << 24) as f32 - 0.5;
    (0..len).map(|_| unit(random.bits()) * (2.0 * tensor.deviation) + tensor.mean).collect()
}
