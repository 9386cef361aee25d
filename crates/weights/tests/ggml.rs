//! Files of whisper.cpp: what a valid one gives, and the error of each kind of invalid one.
//!
//! The layout is that of whisper.cpp's `models/convert-pt-to-ggml.py`; ids and texts of special
//! tokens are those of OpenAI's `whisper/tokenizer.py`.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/bin_case.rs"]
mod bin_case;

use std::path::Path;

use bin_case::bin::{BinTensor, RawBin, words};
use bin_case::exercise::exercise;
use pelton_testing::{Need, skip};
use pelton_weights::{Checkpoint, DType, Error, Problem, Source};

fn open(file: &RawBin) -> Result<Checkpoint, Error> {
    Checkpoint::from_bytes("bad.bin", file.bytes())
}

fn strings(model: &Checkpoint, key: &str) -> Vec<String> {
    let strings = model.metadata().string_array(key).unwrap();
    strings.map(|text| text.unwrap().to_owned()).collect()
}

/// A valid file with a changed tensor of this name.
fn with_tensor(name: &str, change: impl FnOnce(&mut BinTensor)) -> RawBin {
    let mut file = RawBin::valid();
    change(file.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap());
    file
}

fn with_field(index: usize, value: u32) -> RawBin {
    let mut file = RawBin::valid();
    file.fields[index] = value;
    file
}

#[test]
fn a_valid_file_opens() {
    let file = RawBin::valid();
    let model = open(&file).unwrap();
    assert_eq!((model.source(), model.name()), (Source::Ggml, "bad.bin"));
    assert_eq!(model.file_bytes(), file.bytes().len() as u64);
    let metadata = model.metadata();
    assert_eq!(metadata.string("general.architecture").unwrap(), "whisper");
    for (key, expected) in [
        ("encoder.mels_count", 80),
        ("encoder.context_length", 6),
        ("encoder.embedding_length", 32),
        ("encoder.block_count", 1),
        ("encoder.attention.head_count", 2),
        ("decoder.context_length", 8),
        ("decoder.embedding_length", 32),
        ("decoder.block_count", 1),
        ("decoder.attention.head_count", 2),
    ] {
        assert_eq!(metadata.u32(&format!("whisper.{key}")).unwrap(), expected, "{key}");
    }
    // These are the sizes of no model whose heads are published.
    assert!(metadata.get("whisper.alignment_heads").is_none());
    assert_eq!(model.tensors().len(), file.tensors.len());
    for stored in &file.tensors {
        let tensor = model.tensor(&stored.name).unwrap();
        assert_eq!(tensor.bytes, stored.data, "{}", stored.name);
        assert_eq!(tensor.dtype, [DType::F32, DType::F16, DType::Q4_0][stored.type_id as usize]);
        let dims: Vec<usize> = stored.dims.iter().map(|dim| *dim as usize).collect();
        match stored.name.as_str() {
            "encoder.conv1.bias" | "encoder.conv2.bias" => assert_eq!(tensor.shape, [32]),
            _ => assert_eq!(tensor.shape, dims),
        }
    }
}

/// Tensors are read where they lie, at any offset: a load needs no second copy of the weights.
#[test]
fn tensors_are_not_copied() {
    let bytes = bytes_of(&RawBin::valid());
    let range = bytes.as_ptr_range();
    let model = Checkpoint::from_bytes("a.bin", bytes.clone()).unwrap();
    let mut odd = 0;
    for tensor in model.tensors() {
        let own = tensor.bytes.as_ptr_range();
        assert!(range.start <= own.start && own.end <= range.end, "{}", tensor.name);
        odd += own.start as usize % 4;
    }
    assert!(odd > 0, "no tensor at an odd offset");
}

fn bytes_of(file: &RawBin) -> pelton_weights::Bytes {
    file.bytes().into()
}

#[test]
fn the_first_bytes_decide_and_not_the_name() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["ggml-some.bin", "some.gguf"] {
        let path = folder.path().join(name);
        std::fs::write(&path, RawBin::valid().bytes()).unwrap();
        let model = Checkpoint::open(&path).unwrap();
        assert_eq!(model.source(), Source::Ggml);
        assert_eq!(model.metadata().string("general.name").unwrap(), "some");
    }
}

/// A folder stands for its one ggml file, which its first bytes tell from other files of the same
/// ending. A file that is named as GGUF comes first, and of two neither is chosen.
#[test]
fn a_folder_stands_for_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    let name = || {
        let model = Checkpoint::open(folder.path())?;
        assert_eq!(model.source(), Source::Ggml);
        Ok::<_, Error>(model.metadata().string("general.name").unwrap().to_owned())
    };
    write("pytorch_model.bin", b"PK\x03\x04");
    write("ggml-some.bin", &RawBin::valid().bytes());
    assert_eq!(name().unwrap(), "some");
    write("ggml-other.bin", &RawBin::valid().bytes());
    let error = name().unwrap_err();
    assert!(matches!(error.problem(), Problem::SeveralModels { count: 2, .. }), "{error}");
    write("first.gguf", &RawBin::valid().bytes());
    assert_eq!(name().unwrap(), "first");
}

/// All types of whisper.cpp's quantizer.
#[test]
fn quantized_types() {
    for (id, dtype, file_type) in [
        (0, DType::F32, 0),
        (2, DType::Q4_0, 2_002),
        (3, DType::Q4_1, 2_003),
        (6, DType::Q5_0, 2_008),
        (7, DType::Q5_1, 2_009),
        (8, DType::Q8_0, 2_007),
    ] {
        let mut file = with_tensor("encoder.blocks.0.mlp.0.weight", |tensor| {
            tensor.type_id = id;
            tensor.data = vec![0; dtype.bytes_of(32 * 128).unwrap()];
        });
        file.fields[10] = file_type;
        let model = open(&file).map_err(|error| error.to_string());
        if id == 0 {
            // The embedding is Q4_0 without a version of the layouts.
            assert!(model.unwrap_err().contains("Q4_0 in version 0 of the block layouts"));
            continue;
        }
        assert_eq!(model.unwrap().tensor("encoder.blocks.0.mlp.0.weight").unwrap().dtype, dtype);
    }
    let file = with_tensor("encoder.blocks.0.mlp.0.weight", |tensor| tensor.type_id = 12);
    let error = open(&file).unwrap_err();
    assert!(matches!(error.problem(), Problem::RowLength { row: 32, .. }), "{error}");
}

mod vocabulary {
    use super::*;

    /// Ids of OpenAI's tokenizer for the three vocabularies.
    #[test]
    fn special_tokens() {
        for (vocab, sot, translate, no_speech, first) in [
            (51_864, 50_257, 50_357, 50_361, 50_363),
            (51_865, 50_258, 50_358, 50_362, 50_364),
            (51_866, 50_258, 50_359, 50_363, 50_365),
        ] {
            let model = open(&RawBin::of_vocab(vocab)).unwrap();
            let tokens = strings(&model, "tokenizer.ggml.tokens");
            assert_eq!(tokens.len(), vocab as usize);
            for (id, text) in [
                (sot - 1, "<|endoftext|>"),
                (sot, "<|startoftranscript|>"),
                (sot + 1, "<|en|>"),
                (sot + 99, "<|su|>"),
                (translate, "<|translate|>"),
                (translate + 1, "<|transcribe|>"),
                (translate + 2, "<|startoflm|>"),
                (translate + 3, "<|startofprev|>"),
                (no_speech, "<|nospeech|>"),
                (no_speech + 1, "<|notimestamps|>"),
                (first, "<|0.00|>"),
                (first + 1500, "<|30.00|>"),
            ] {
                assert_eq!(tokens[id], text, "{vocab}");
            }
            let types = model.metadata().opt_i32_array("tokenizer.ggml.token_type").unwrap();
            let types = types.unwrap();
            assert_eq!((types[0], types[sot - 1], types[first + 1500]), (1, 3, 3));
            let end = model.metadata().u32("tokenizer.ggml.eos_token_id").unwrap();
            assert_eq!(end as usize, sot - 1);
        }
    }

    #[test]
    fn the_end_of_a_text_may_be_in_the_file() {
        for vocab in [51_864, 51_865] {
            let mut file = RawBin::of_vocab(vocab);
            let expected = strings(&open(&file).unwrap(), "tokenizer.ggml.tokens");
            file.tokens.push(b"<|endoftext|>".to_vec());
            let model = open(&file).unwrap();
            assert_eq!(strings(&model, "tokenizer.ggml.tokens"), expected);
        }
    }

    /// Each pair of bytes is merged of two tokens, in the order of ids.
    #[test]
    fn merges_of_pairs() {
        let model = open(&RawBin::valid()).unwrap();
        let merges = strings(&model, "tokenizer.ggml.merges");
        let tokens = strings(&model, "tokenizer.ggml.tokens");
        assert_eq!(merges.len(), 50_256 - 256);
        for (merge, token) in merges.iter().zip(&tokens[256..]) {
            assert_eq!(merge.replace(' ', ""), *token);
        }
    }

    /// The merges of GPT-2 come out of the ranks of its tokens, which is OpenAI's English
    /// vocabulary.
    #[test]
    fn merges_of_gpt_2() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let path = root.join("shared/data/vocab/ggml-vocab-gpt-2.gguf");
        if !path.exists() {
            return skip(Need::Data, format!("{} is missing", path.display()));
        }
        let known = Checkpoint::open(path).unwrap();
        let expected = strings(&known, "tokenizer.ggml.tokens");
        let printed = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let others: Vec<u8> = (0..=255).filter(|byte| !printed(*byte)).collect();
        let byte = |letter: char| match u32::from(letter).checked_sub(256) {
            Some(other) => others[other as usize],
            None => letter as u8,
        };
        let mut file = RawBin::of_vocab(51_864);
        file.tokens = expected.iter().map(|text| text.chars().map(byte).collect()).collect();
        let model = open(&file).unwrap();
        assert_eq!(strings(&model, "tokenizer.ggml.tokens")[..50_257], expected);
        let merges = strings(&model, "tokenizer.ggml.merges");
        assert_eq!(merges, strings(&known, "tokenizer.ggml.merges"));
        assert_eq!(merges.len(), 50_000);
    }
}

/// The error of each kind of invalid field. The text is complete but for the file's name.
#[test]
fn invalid_fields() {
    let field = |field: &str, found: &str, expected: &str| {
        format!("{field} of the ggml file is {found}, expected {expected}")
    };
    let mut cases: Vec<(RawBin, String)> = vec![
        (
            with_field(0, 32_000),
            field(
                "n_vocab",
                "32000",
                "51864, 51865 or 51866 of Whisper; a GGUF file is read of other models",
            ),
        ),
        (with_field(1, 0), field("n_audio_ctx", "0", "1 to 65536")),
        (with_field(2, 65_537), field("n_audio_state", "65537", "1 to 65536")),
        (with_field(3, 3), field("n_audio_head", "3", "a divisor of the width 32")),
        (with_field(4, u32::MAX), field("n_audio_layer", "4294967295", "1 to 1024")),
        (with_field(5, 65_537), field("n_text_ctx", "65537", "1 to 65536")),
        (with_field(6, 64), field("n_text_state", "64", "n_audio_state, 32")),
        (with_field(7, 5), field("n_text_head", "5", "a divisor of the width 32")),
        (with_field(8, 0), field("n_text_layer", "0", "1 to 1024")),
        (with_field(9, 81), field("n_mels", "81", "80 or 128")),
        (with_field(9, 128), field("n_mel of the filters", "80", "128")),
        (
            with_field(10, 2_004),
            field(
                "ftype",
                "2004",
                "0 to 3 or 7 to 14, with the version of block layouts in thousands",
            ),
        ),
        (
            with_field(10, 1_002),
            "tensor \"decoder.token_embedding.weight\" has type Q4_0 in version 1 of the block \
             layouts, expected one of version 2: download the file again or quantize anew"
                .to_owned(),
        ),
    ];
    let mut file = RawBin::valid();
    file.filter_dims[1] = 200;
    cases.push((file, field("n_fft of the filters", "200", "201")));
    let mut file = RawBin::valid();
    file.filters[4..8].copy_from_slice(&f32::NAN.to_le_bytes());
    let expected = "0.024863 of Slaney's mel scale";
    cases.push((file, field("filter 0, 1", "NaN", expected)));
    let mut file = RawBin::valid();
    file.filters[4..8].copy_from_slice(&0.0249f32.to_le_bytes());
    cases.push((file, field("filter 0, 1", "0.024900000542402267", expected)));
    for count in [0, 50_256, 50_259, u32::MAX] {
        let mut file = RawBin::valid();
        file.token_count = Some(count);
        let expected = "50257 or 50258 for n_vocab 51865";
        cases.push((file, field("the number of tokens", &count.to_string(), expected)));
    }
    let mut file = RawBin::valid();
    file.tokens[300] = vec![b'a'; 257];
    cases.push((file, field("the length of token 300", "257", "at most 256 bytes")));
    let mut file = RawBin::valid();
    file.tokens.push(b"end".to_vec());
    cases.push((file, field("token 50257", "\"end\"", "<|endoftext|>")));
    let vocabulary = |fault: &str| format!("the vocabulary has {fault}, expected Whisper's");
    let mut file = RawBin::valid();
    file.tokens[300] = file.tokens[299].clone();
    cases.push((file, vocabulary("token \"\\x00+\" twice")));
    let mut file = RawBin::valid();
    file.tokens[7] = vec![7; 9];
    cases.push((file, vocabulary("no token of the byte 0x07")));
    let mut file = RawBin::valid();
    file.tokens[400] = "<|nospeech|>".into();
    cases.push((file, vocabulary("token \"<|nospeech|>\" twice, with the ids 400 and 50362")));
    for (file, expected) in cases {
        assert_eq!(open(&file).unwrap_err().to_string(), format!("bad.bin: {expected}"));
    }
}

/// The error of each kind of invalid tensor names it.
#[test]
fn invalid_tensors() {
    const MATRIX: &str = "encoder.blocks.0.attn.out.weight";
    let rejected = |file: RawBin| open(&file).unwrap_err().to_string().replacen("bad.bin: ", "", 1);
    let of = |change: fn(&mut BinTensor)| rejected(with_tensor(MATRIX, change));
    for (error, expected) in [
        (
            of(|tensor| tensor.dims = vec![32, 31]),
            format!("tensor {MATRIX:?} has shape [32, 31], expected [32, 32]"),
        ),
        (
            of(|tensor| tensor.dims = vec![32, 0]),
            format!(
                "tensor {MATRIX:?} has shape [32, 0]: no elements, expected at least one in each dimension"
            ),
        ),
        (
            of(|tensor| tensor.dims = vec![u32::MAX; 4]),
            format!(
                "tensor {MATRIX:?} has shape [4294967295, 4294967295, 4294967295, 4294967295]: \
                 more elements than memory can address"
            ),
        ),
        (
            of(|tensor| tensor.name = "encoder.blocks.0.attn.key.bias".to_owned()),
            "tensor \"encoder.blocks.0.attn.key.bias\" is not known of architecture \"whisper\""
                .to_owned(),
        ),
        (
            of(|tensor| tensor.name = "encoder.blocks.0.attn.key.weight".to_owned()),
            "tensor \"encoder.blocks.0.attn.key.weight\" occurs twice, expected once".to_owned(),
        ),
        (
            of(|tensor| tensor.name_len = Some(65)),
            "the length of the name of tensor 10 of the ggml file is 65, expected at most 64"
                .to_owned(),
        ),
        (
            of(|tensor| tensor.n_dims = Some(5)),
            "tensor \"number 10\" has 5 dimensions, expected 1 to 4".to_owned(),
        ),
    ] {
        assert_eq!(error, expected);
    }
    let error = rejected(with_tensor(MATRIX, |tensor| tensor.type_id = 9));
    assert!(error.starts_with(&format!("tensor {MATRIX:?} has type Q8_1, expected one of F32")));
    // The kernel of a convolution, positions and vectors are floats.
    for name in ["encoder.conv1.weight", "decoder.positional_embedding", "decoder.ln.bias"] {
        let error = rejected(with_tensor(name, |tensor| tensor.type_id = 8));
        assert_eq!(error, format!("tensor {name:?} has type Q8_0, expected one of F32, F16"));
    }
    let mut file = RawBin::valid();
    file.tensors.retain(|tensor| tensor.name != MATRIX);
    assert_eq!(
        rejected(file),
        format!("tensor {MATRIX:?} is missing, expected one of shape [32, 32]")
    );
    // Another vector of one column is no bias of a convolution.
    let error = rejected(with_tensor("encoder.ln_post.bias", |tensor| tensor.dims = vec![1, 32]));
    assert_eq!(error, "tensor \"encoder.ln_post.bias\" has shape [1, 32], expected [32]");
}

/// A file that ends early is an error, whatever it ends in.
#[test]
fn truncations() {
    let (whole, fields) = RawBin::valid().bytes_and_fields();
    let near = fields.iter().flat_map(|at| at.saturating_sub(1)..at + 2);
    let spread = (0..whole.len()).step_by(39_989);
    for len in near.chain(spread).filter(|len| *len < whole.len()) {
        let cut = Checkpoint::from_bytes("cut", whole[..len].to_vec());
        assert!(cut.is_err(), "{len} of {} bytes", whole.len());
    }
    let error = Checkpoint::from_bytes("cut", whole[..whole.len() - 1].to_vec()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cut: the file is cut inside the data of tensor \"decoder.token_embedding.weight\" ({} of at \
             least {} bytes): download it again",
            whole.len() - 1,
            whole.len()
        )
    );
}

/// Every field with extreme values: an error, or a model that can be read wholly.
#[test]
fn mutated_fields() {
    let (whole, fields) = RawBin::valid().bytes_and_fields();
    let mut models = 0;
    for at in fields {
        let Some(field) = whole.get(at..at + 4) else { continue };
        let value = u32::from_le_bytes(field.try_into().unwrap());
        for other in [0, value.wrapping_add(1), u32::MAX] {
            let mut bytes = whole.clone();
            bytes[at..at + 4].copy_from_slice(&other.to_le_bytes());
            models += usize::from(exercise(bytes));
        }
    }
    // Fields of tensors' data may have any value, and n_audio_head any divisor.
    assert!(models > 3, "{models}");
}

/// The vocabulary of the tests has the tokens of one byte first.
#[test]
fn words_are_distinct() {
    let mut all = words(50_256);
    assert_eq!((all[0].as_slice(), all[256].as_slice()), (&[0][..], &[0, 0][..]));
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 50_256);
}
