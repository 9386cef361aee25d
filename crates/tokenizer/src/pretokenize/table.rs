//! Table of the pre-tokenizers of `tokenizer.ggml.pre`.
//!
//! The names and their grouping are those of ggml-org/llama.cpp, `src/llama-vocab.cpp` (as of the
//! llama_cpp_python 0.3.36 source package). Where that file quotes the pattern of the model's
//! `tokenizer.json` next to an approximation, this table has the quoted pattern. Two features
//! differ because the regular expressions here have no look-ahead and run in linear time. The
//! suffix `|\s+(?!\S)|\s+` of a pattern becomes [`Step::Words`], and the grouping of digits from
//! the right becomes [`Step::Thousands`].

use pelton_weights::patterns::{
    CL100K, CL100K_DIGIT, CL100K_DIGITS, DEEPSEEK_V3, GPT2, O200K, O200K_DIGIT, QWEN35, TEKKEN,
};

/// One pass over the pieces of the previous pass.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Every match is a piece, and so is the text between matches.
    Isolate(&'static str),
    /// `Isolate` with `|\s+(?!\S)|\s+` after the pattern: the last character of a run of white
    /// space belongs to the text that follows.
    Words(&'static str),
    /// `Words`, with runs of white space split into the largest powers of two up to 512 that
    /// leave one character over: `|\s{512}(?!\S)|\s{256}(?!\S)|…|\s{1,2}(?!\S)|\s{1}`.
    WordsInPowers(&'static str),
    /// Every match is a number, which is split into groups of three digits from the right.
    Thousands(&'static str),
}

/// Words that are looked up as a whole token before merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    /// None: all tokens result from merges.
    Never,
    /// Runs of newlines.
    Newlines,
    /// All words (`ignore_merges` in `tokenizer.json`).
    Always,
}

/// The rules of a group of names.
#[derive(Debug)]
pub(crate) struct Row {
    /// Values of `tokenizer.ggml.pre`.
    pub(crate) names: &'static [&'static str],
    /// Passes that split text into words.
    pub(crate) steps: &'static [Step],
    /// Words that bypass the merges.
    pub(crate) whole: Whole,
    /// Default of `add_bos_token`: whether prompts begin with BOS.
    pub(crate) add_bos: bool,
    /// Whether pieces are UTF-8 with space marks instead of GPT-2's alphabet of bytes.
    pub(crate) marked: bool,
}

const BYTES: Row =
    Row { names: &[], steps: &[], whole: Whole::Never, add_bos: false, marked: false };
const MARKED: Row = Row { marked: true, ..BYTES };

/// Han, Hiragana and Katakana.
const CJK: &str = r"[\u{4E00}-\u{9FA5}\u{3040}-\u{309F}\u{30A0}-\u{30FF}]+";

/// DeepSeek V3's last pattern, where only the first newline joins what precedes it.
const ONE_LINE: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]"
);

/// The letters that DeepSeek LLM's pattern lists: those of Latin, Greek, Cyrillic, Armenian,
/// Georgian, Cherokee, Glagolitic, Coptic, Deseret and a few more scripts.
const DEEPSEEK_LETTERS: &str = concat!(
    r"\s?[A-Za-z\u{B5}\u{C0}-\u{D6}\u{D8}-\u{F6}\u{F8}-\u{1BA}\u{1BC}-\u{1BF}\u{1C4}-\u{293}",
    r"\u{295}-\u{2AF}\u{370}-\u{373}\u{376}\u{377}\u{37B}-\u{37D}\u{37F}\u{386}\u{388}-\u{38A}",
    r"\u{38C}\u{38E}-\u{3A1}\u{3A3}-\u{3F5}\u{3F7}-\u{481}\u{48A}-\u{52F}\u{531}-\u{556}",
    r"\u{10A0}-\u{10C5}\u{13A0}-\u{13F5}\u{13F8}-\u{13FD}\u{1C90}-\u{1CBA}\u{1CBD}-\u{1CBF}",
    r"\u{1D00}-\u{1D2B}\u{1D6B}-\u{1D77}\u{1D79}-\u{1D9A}\u{1E00}-\u{1F15}\u{1F18}-\u{1F1D}",
    r"\u{1F20}-\u{1F45}\u{1F48}-\u{1F4D}\u{1F50}-\u{1F57}\u{1F59}\u{1F5B}\u{1F5D}",
    r"\u{1F5F}-\u{1F7D}\u{1F80}-\u{1FB4}\u{1FB6}-\u{1FBC}\u{1FBE}\u{1FC2}-\u{1FC4}",
    r"\u{1FC6}-\u{1FCC}\u{1FD0}-\u{1FD3}\u{1FD6}-\u{1FDB}\u{1FE0}-\u{1FEC}\u{1FF2}-\u{1FF4}",
    r"\u{1FF6}-\u{1FFC}\u{2102}\u{2107}\u{210A}-\u{2113}\u{2115}\u{2119}-\u{211D}\u{2124}",
    r"\u{2126}\u{2128}\u{212A}-\u{212D}\u{212F}-\u{2134}\u{2139}\u{213C}-\u{213F}",
    r"\u{2145}-\u{2149}\u{214E}\u{2183}\u{2184}\u{2C00}-\u{2C7B}\u{2C7E}-\u{2CE4}",
    r"\u{2CEB}-\u{2CEE}\u{2CF2}\u{2CF3}\u{A640}-\u{A66D}\u{A680}-\u{A69B}\u{A722}-\u{A76F}",
    r"\u{A771}-\u{A787}\u{A78B}-\u{A78E}\u{AB70}-\u{ABBF}\u{FB00}-\u{FB06}\u{FB13}-\u{FB17}",
    r"\u{FF21}-\u{FF3A}\u{FF41}-\u{FF5A}\u{10400}-\u{1044F}\u{104B0}-\u{104D3}",
    r"\u{104D8}-\u{104FB}\u{10C80}-\u{10CB2}\u{10CC0}-\u{10CF2}\u{118A0}-\u{118DF}",
    r"\u{1E900}-\u{1E943}]+"
);

/// DeepSeek's Han, Kana, Hangul and everything else from U+0800 to U+9FA5.
const DEEPSEEK_CJK: &str = r"[\u{4E00}-\u{9FA5}\u{800}-\u{4E00}\u{AC00}-\u{D7FF}]+";

/// Words between the punctuation of BLOOM's languages.
const BLOOM: &str = r" ?[^(\s|.,!?\u{2026}\u{3002}\u{FF0C}\u{3001}\u{964}\u{6D4}\u{60C})]+";

const KIMI: &str = concat!(
    r"[\p{Han}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
);

/// The scripts of East and South-East Asia that are written without spaces. The first code point
/// of the compatibility ideographs is U+F900; llama.cpp's source has its canonical form U+8C48.
const AFMOE_ASIAN: &str = concat!(
    r"[\u{4E00}-\u{9FFF}\u{3400}-\u{4DBF}\u{F900}-\u{FAFF}\u{3040}-\u{309F}\u{30A0}-\u{30FF}",
    r"\u{FF65}-\u{FF9F}\u{2F00}-\u{2FDF}\u{E40}-\u{E7F}\u{E80}-\u{EFF}\u{1780}-\u{17FF}",
    r"\u{1000}-\u{109F}\u{AA60}-\u{AA7F}\u{A9E0}-\u{A9FF}\u{AC00}-\u{D7AF}\u{1100}-\u{11FF}]+"
);

const YOUTU_ASIAN: &str = concat!(
    r"[\u{AC00}-\u{D7A3}\u{3131}-\u{318E}]+|[\u{FF01}\u{2026}\u{201C}\u{201D}\u{2018}\u{2019}",
    r"\u{2014}\u{FF1A}\u{FF1B}\u{FF0C}\u{3001}-\u{303F}\u{FE30}-\u{FE4F}]+",
    r"|[\u{3105}-\u{312F}]+|[\u{4E00}-\u{9FA5}\u{3040}-\u{309F}\u{30A0}-\u{30FF}]+"
);

const EXAONE_MOE: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]"
);

const BAILING: &str =
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]";

const SEED_CODER: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+"
);

/// The pattern of cl100k without English contractions, so that Turkish suffixes stay attached.
const UFAKZEKA: &str = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+";

const LINES: Step = Step::Isolate(r"[^\n]+|[\n]+");

/// Every set of rules.
pub(crate) const ROWS: &[Row] = &[
    Row {
        names: &["default"],
        steps: &[
            Step::Isolate(r"[\p{P}\$\+<=>\^~\|]+"),
            Step::Words(GPT2),
            Step::Isolate(r"\p{N}+"),
            Step::Isolate("[0-9][0-9][0-9]"),
        ],
        ..BYTES
    },
    Row {
        names: &[
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "gigachat",
            "jina-v2-es",
            "jina-v2-de",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "jina-v1-en",
            "jina-v2-code",
            "roberta-bpe",
            "exaone4",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
        ],
        steps: &[Step::Words(GPT2)],
        ..BYTES
    },
    Row {
        names: &[
            "llama3",
            "llama-v3",
            "llama-bpe",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        steps: &[Step::Words(CL100K)],
        whole: Whole::Always,
        add_bos: true,
        ..BYTES
    },
    Row { names: &["dbrx", "smaug-bpe", "chatglm-bpe"], steps: &[Step::Words(CL100K)], ..BYTES },
    Row { names: &["glm4", "glm5"], steps: &[Step::Words(CL100K)], whole: Whole::Always, ..BYTES },
    Row { names: &["jais-2"], steps: &[Step::WordsInPowers(CL100K)], ..BYTES },
    Row {
        names: &["minicpm5"],
        steps: &[Step::Isolate(r"\p{N}{1,3}"), Step::Words(CL100K_DIGITS)],
        whole: Whole::Always,
        ..BYTES
    },
    Row {
        names: &[
            "qwen2",
            "deepseek-r1-qwen",
            "kormo",
            "f2llmv2",
            "megrez",
            "stablelm2",
            "hunyuan",
            "solar-open",
            "grok-2",
        ],
        steps: &[Step::Words(CL100K_DIGIT)],
        ..BYTES
    },
    Row { names: &["qwen35"], steps: &[Step::Words(QWEN35)], ..BYTES },
    Row { names: &["laguna"], steps: &[LINES, Step::Words(CL100K_DIGIT)], ..BYTES },
    Row { names: &["ufakzeka"], steps: &[Step::Words(UFAKZEKA)], ..BYTES },
    Row { names: &["seed-coder"], steps: &[Step::Words(SEED_CODER)], ..BYTES },
    Row {
        names: &["bailingmoe", "bailingmoe2", "llada-moe"],
        steps: &[Step::Words(BAILING)],
        ..BYTES
    },
    Row { names: &["exaone-moe"], steps: &[Step::Words(EXAONE_MOE)], ..BYTES },
    Row {
        names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
        steps: &[Step::Words(O200K)],
        ..BYTES
    },
    Row {
        names: &["granite-embed-multi-97m"],
        steps: &[Step::Words(O200K)],
        whole: Whole::Always,
        ..BYTES
    },
    Row {
        names: &["tekken"],
        steps: &[Step::Words(TEKKEN)],
        whole: Whole::Always,
        add_bos: true,
        ..BYTES
    },
    Row {
        names: &["youtu"],
        steps: &[Step::Isolate(YOUTU_ASIAN), Step::Words(O200K_DIGIT)],
        whole: Whole::Always,
        ..BYTES
    },
    Row {
        names: &["tiny_aya", "cohere2moe"],
        // `\d{1,3}(?=(?:\d{3})*\b)`
        steps: &[Step::Thousands(r"\d+\b"), Step::Words(O200K)],
        ..BYTES
    },
    Row { names: &["kimi-k2"], steps: &[Step::Words(KIMI)], ..BYTES },
    Row {
        names: &["superbpe"],
        // `\p{N}+`, then `(?=(\d{3})+(?!\d))`
        steps: &[Step::Isolate(r"\p{N}+"), Step::Thousands(r"\d+")],
        ..BYTES
    },
    Row {
        names: &["afmoe"],
        steps: &[Step::Thousands(r"\p{N}+"), Step::Isolate(AFMOE_ASIAN), Step::Words(DEEPSEEK_V3)],
        ..BYTES
    },
    Row {
        names: &["deepseek-llm"],
        steps: &[
            Step::Isolate(r"[\r\n]"),
            Step::Isolate(DEEPSEEK_LETTERS),
            Step::Isolate(
                r"\s?[!-/:-~\u{FF01}-\u{FF0F}\u{FF1A}-\u{FF5E}\u{2018}-\u{201F}\u{3000}-\u{3002}]+",
            ),
            Step::Isolate(r"\s+$"),
            Step::Isolate(DEEPSEEK_CJK),
            Step::Isolate(r"\p{N}+"),
        ],
        ..BYTES
    },
    Row {
        names: &["deepseek-coder"],
        steps: &[
            Step::Isolate(r"[\r\n]"),
            Step::Isolate(r"\s?\p{L}+"),
            Step::Isolate(r"\s?\p{P}+"),
            Step::Isolate(DEEPSEEK_CJK),
            Step::Isolate(r"\p{N}"),
        ],
        ..BYTES
    },
    Row {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        steps: &[Step::Isolate(r"\p{N}{1,3}"), Step::Isolate(CJK), Step::Words(DEEPSEEK_V3)],
        ..BYTES
    },
    Row {
        names: &["spark2_5"],
        steps: &[
            Step::Isolate(r"\p{N}{1,3}"),
            Step::Isolate(CJK),
            Step::Words(ONE_LINE),
            Step::Isolate(r"\p{N}"),
        ],
        ..BYTES
    },
    Row {
        names: &["falcon"],
        steps: &[
            Step::Isolate(r"[\p{P}\$\+<=>\^~\|`]+"),
            Step::Words(GPT2),
            Step::Isolate("[0-9][0-9][0-9]"),
        ],
        ..BYTES
    },
    Row {
        names: &[
            "starcoder",
            "refact",
            "command-r",
            "smollm",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        steps: &[Step::Isolate(r"\p{N}"), Step::Words(GPT2)],
        ..BYTES
    },
    Row { names: &["poro-chat", "bloom", "gpt3-finnish"], steps: &[Step::Isolate(BLOOM)], ..BYTES },
    Row { names: &["viking"], steps: &[Step::Isolate(BLOOM), Step::Isolate(r"\p{N}")], ..BYTES },
    Row {
        names: &["chameleon"],
        steps: &[
            Step::Isolate("<sentinel:[0-9]+>"),
            Step::Isolate("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
            Step::Isolate(r"([\t\n]|    |  )"),
            Step::Isolate(r"\p{N}"),
            Step::Isolate(r"[\p{P}!-/:-@\[-`{-~]"),
            Step::Words(GPT2),
        ],
        add_bos: true,
        ..BYTES
    },
    Row {
        names: &["gemma4", "granite-embed-multi-311m"],
        steps: &[LINES],
        whole: Whole::Newlines,
        add_bos: true,
        ..MARKED
    },
    Row { names: &["sarvam-moe"], steps: &[LINES], ..MARKED },
];

/// Names whose originals compose characters (NFC) before they split a text; GGUF files do not state
/// it. The originals are those of transformers 5.24
/// (`models/*/tokenization_{qwen2,qwen3_5,gpt_neox, cohere}.py`); OLMo's and MPT's tokenizers are
/// of GPT-NeoX's class.
pub(crate) const COMPOSED: &[&str] = &["qwen2", "qwen35", "olmo", "mpt", "command-r"];

/// Names of llama.cpp that this crate does not support, with the reason.
pub(crate) const UNSUPPORTED: &[(&str, &str)] = &[(
    "whitespace",
    "; it drops white space, which applies to tokenizer.ggml.model \"whitespace\" only, \
     and that model is not supported",
)];
