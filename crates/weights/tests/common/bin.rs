//! Whisper's ggml files assembled field by field, so that every field can be invalid.

/// Fields of a file. A count of `None` is computed as in a valid file.
#[derive(Clone)]
pub(crate) struct RawBin {
    pub(crate) magic: [u8; 4],
    /// n_vocab, n_audio_ctx, n_audio_state, n_audio_head, n_audio_layer, n_text_ctx, n_text_state,
    /// n_text_head, n_text_layer, n_mels, ftype.
    pub(crate) fields: [u32; 11],
    /// The mels and frequencies that the filters state.
    pub(crate) filter_dims: [u32; 2],
    pub(crate) filters: Vec<u8>,
    pub(crate) token_count: Option<u32>,
    pub(crate) tokens: Vec<Vec<u8>>,
    pub(crate) tensors: Vec<BinTensor>,
}

#[derive(Clone)]
pub(crate) struct BinTensor {
    pub(crate) name: String,
    pub(crate) n_dims: Option<u32>,
    pub(crate) name_len: Option<u32>,
    pub(crate) type_id: u32,
    pub(crate) dims: Vec<u32>,
    pub(crate) data: Vec<u8>,
}

pub(crate) const WIDTH: u32 = 32;
const AUDIO: u32 = 6;
const TEXT: u32 = 8;

/// 256 tokens of one byte, then all pairs of those in turn.
pub(crate) fn words(count: usize) -> Vec<Vec<u8>> {
    let bytes = (0..=255u8).map(|byte| vec![byte]);
    let pairs = (0..=u16::MAX).map(|pair| pair.to_be_bytes().to_vec());
    bytes.chain(pairs).take(count).collect()
}

#[allow(dead_code, reason = "one of the tests that share this file calls a part of it")]
impl RawBin {
    /// A multilingual model of one layer on each side, in F16 but for an embedding of Q4_0.
    pub(crate) fn valid() -> Self {
        let mut file = Self::of_vocab(51_865);
        file.fields[10] = 2_002;
        for tensor in &mut file.tensors {
            if tensor.name == "decoder.token_embedding.weight" {
                tensor.type_id = 2;
                tensor.data.truncate(51_865 * 18);
            }
        }
        file
    }

    /// A model of F16 with so many tokens.
    pub(crate) fn of_vocab(vocab: u32) -> Self {
        let texts = if vocab == 51_864 { 50_256 } else { 50_257 };
        let mut tokens = words(texts - usize::from(vocab != 51_864));
        if vocab != 51_864 {
            tokens.push(Vec::new());
        }
        Self {
            magic: *b"lmgg",
            fields: [vocab, AUDIO, WIDTH, 2, 1, TEXT, WIDTH, 2, 1, 80, 1],
            filter_dims: [80, 201],
            filters: include_bytes!("../fixtures/whisper/mel_80.f32").to_vec(),
            token_count: None,
            tokens,
            tensors: tensors(vocab),
        }
    }

    /// The file, and the offset of each of its fields: sizes, filters, counts, the first and the
    /// last tokens, and the descriptions of some tensors.
    pub(crate) fn bytes_and_fields(&self) -> (Vec<u8>, Vec<usize>) {
        let mut out = self.magic.to_vec();
        let mut at = vec![0];
        let put = |out: &mut Vec<u8>, at: &mut Vec<usize>, value: u32| {
            at.push(out.len());
            out.extend(value.to_le_bytes());
        };
        for value in self.fields.iter().chain(&self.filter_dims) {
            put(&mut out, &mut at, *value);
        }
        at.push(out.len());
        out.extend(&self.filters);
        put(&mut out, &mut at, self.token_count.unwrap_or(self.tokens.len() as u32));
        for (id, token) in self.tokens.iter().enumerate() {
            if id < 2 || id + 2 > self.tokens.len() {
                at.push(out.len());
            }
            out.extend((token.len() as u32).to_le_bytes());
            out.extend(token);
        }
        for (number, tensor) in self.tensors.iter().enumerate() {
            let mut own = Vec::new();
            let fields = &mut own;
            put(&mut out, fields, tensor.n_dims.unwrap_or(tensor.dims.len() as u32));
            put(&mut out, fields, tensor.name_len.unwrap_or(tensor.name.len() as u32));
            put(&mut out, fields, tensor.type_id);
            for dim in &tensor.dims {
                put(&mut out, fields, *dim);
            }
            fields.push(out.len());
            out.extend(tensor.name.as_bytes());
            fields.push(out.len());
            out.extend(&tensor.data);
            if number < 4 || number + 1 == self.tensors.len() {
                at.extend(own);
            }
        }
        at.push(out.len());
        (out, at)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes_and_fields().0
    }
}

/// The tensors of a model of one layer on each side, as whisper.cpp's converter writes them.
fn tensors(vocab: u32) -> Vec<BinTensor> {
    let mut all = Vec::new();
    let mut add = |name: String, dims: &[u32], f16: bool| {
        let seed = all.len();
        let count: u32 = dims.iter().product();
        // Values of one exponent and changing fractions.
        let byte = |i: usize| ((i * 37 + seed * 11) % 251) as u8;
        let data = (0..count as usize).flat_map(|i| match f16 {
            true => vec![byte(i), 0x28],
            false => vec![0, byte(i), 0x00, 0x3e],
        });
        let (type_id, data) = (u32::from(f16), data.collect());
        let dims = dims.to_vec();
        all.push(BinTensor { name, n_dims: None, name_len: None, type_id, dims, data });
    };
    let w = WIDTH;
    for (name, inputs) in [("conv1", 80), ("conv2", w)] {
        add(format!("encoder.{name}.weight"), &[3, inputs, w], true);
        add(format!("encoder.{name}.bias"), &[1, w], false);
    }
    for (side, context) in [("encoder", AUDIO), ("decoder", TEXT)] {
        add(format!("{side}.positional_embedding"), &[w, context], false);
        let block = format!("{side}.blocks.0");
        let kinds: &[&str] = if side == "decoder" { &["attn", "cross_attn"] } else { &["attn"] };
        for kind in kinds {
            for (part, bias) in [("query", true), ("key", false), ("value", true), ("out", true)] {
                add(format!("{block}.{kind}.{part}.weight"), &[w, w], true);
                if bias {
                    add(format!("{block}.{kind}.{part}.bias"), &[w], false);
                }
            }
            add(format!("{block}.{kind}_ln.weight"), &[w], false);
            add(format!("{block}.{kind}_ln.bias"), &[w], false);
        }
        for (part, dims) in [("mlp.0", [w, 4 * w]), ("mlp.2", [4 * w, w])] {
            add(format!("{block}.{part}.weight"), &dims, true);
            add(format!("{block}.{part}.bias"), &dims[1..], false);
        }
        add(format!("{block}.mlp_ln.weight"), &[w], false);
        add(format!("{block}.mlp_ln.bias"), &[w], false);
    }
    for name in ["encoder.ln_post", "decoder.ln"] {
        add(format!("{name}.weight"), &[w], false);
        add(format!("{name}.bias"), &[w], false);
    }
    add("decoder.token_embedding.weight".to_owned(), &[w, vocab], true);
    all
}
