//! Tokens of annotations such as `[MUSIC]` and of speaker tags, which nobody says.

use std::collections::BTreeSet;

/// Texts that are banned where they are a single token.
const SYMBOLS: &str = "\" # ( ) * + / : ; < = > @ [ \\ ] ^ _ ` { | } ~ 「 」 『 』 << >> <<< >>> -- --- \
    -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪";
/// Musical symbols (U+2669 to U+266F), whose first token is banned whatever follows it.
const MUSIC: &str = "♩ ♪ ♫ ♬ ♭ ♮ ♯";
/// Symbols that are banned at the start of a word alone.
const WORD_STARTS: [&str; 2] = [" -", " '"];

/// The tokens that OpenAI's `non_speech_tokens` bans, ascending.
pub(crate) fn non_speech(encode: impl Fn(&str) -> Vec<u32>) -> Vec<u32> {
    let mut banned = BTreeSet::new();
    banned.extend(WORD_STARTS.iter().filter_map(|text| encode(text).first().copied()));
    for (symbols, always) in [(SYMBOLS, false), (MUSIC, true)] {
        for symbol in symbols.split(' ') {
            for tokens in [encode(symbol), encode(&format!(" {symbol}"))] {
                match *tokens {
                    [token] => banned.insert(token),
                    [first, ..] if always => banned.insert(first),
                    _ => false,
                };
            }
        }
    }
    banned.into_iter().collect()
}
