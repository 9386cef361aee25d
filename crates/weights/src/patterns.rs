//! Patterns of words that several pre-tokenizers share, without the end `|\s+(?!\S)|\s+`.
//!
//! The patterns are facts of published `tokenizer.json` files. A tokenizer splits by them, and a
//! folder's tokenizer is known by them.

/// GPT-2's.
pub const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+";

/// OpenAI's cl100k, with a pattern of a word of digits.
macro_rules! cl100k {
    ($digits:literal) => {
        concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        )
    };
}

/// OpenAI's o200k: words in one or in two cases, with patterns of contractions and of a word of
/// digits.
macro_rules! o200k {
    ($contractions:literal, $digits:literal) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
            $contractions,
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
            $contractions,
            "|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+"
        )
    };
}

/// cl100k: at most three digits a word.
pub const CL100K: &str = cl100k!(r"\p{N}{1,3}");
/// cl100k with words of one digit.
pub const CL100K_DIGIT: &str = cl100k!(r"\p{N}");
/// cl100k with words of any number of digits.
pub const CL100K_DIGITS: &str = cl100k!(r"\p{N}+");
/// o200k: at most three digits a word.
pub const O200K: &str = o200k!("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}{1,3}");
/// o200k with words of one digit.
pub const O200K_DIGIT: &str = o200k!("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}");
/// Mistral's Tekken: o200k without contractions, with words of one digit.
pub const TEKKEN: &str = o200k!("", r"\p{N}");

/// Qwen 3.5's: cl100k with marks in words.
pub const QWEN35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
);

/// The last of DeepSeek V3's.
pub const DEEPSEEK_V3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+"
);
