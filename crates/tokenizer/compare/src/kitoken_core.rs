//! `kitoken`, which has no merge list: vocabularies are sorted by the merge that forms each token.

use std::collections::{HashMap, HashSet};

use kitoken::{
    Configuration, Fallback, InsertionPosition, Kitoken, Metadata, Model, Normalization,
    NormalizationReplacePattern, Regex, SpecialToken, SpecialTokenKind, Split, SplitBehavior,
    SplitPattern, Template, Token, UnicodeNormalization,
};
use pelton_tokenizer::{TokenType, Vocabulary};

use crate::Encode;

pub(crate) fn build(vocabulary: &Vocabulary<'_>) -> Encode {
    let split = |pattern: &str, behavior| Split::Pattern {
        pattern: SplitPattern::Regex(Regex::new(pattern).unwrap()),
        behavior,
    };
    let tokens = || (0u32..).zip(vocabulary.tokens.iter().copied().zip(vocabulary.types.iter()));
    let normal = || tokens().filter(|(_, (_, kind))| **kind == TokenType::Normal);
    let mut config = Configuration::default();
    let model = match vocabulary.model {
        pelton_tokenizer::Model::Bpe => {
            let mut made: HashMap<String, usize> = HashMap::new();
            for (place, merge) in vocabulary.merges.as_ref().unwrap().iter().enumerate() {
                made.entry(merge.replacen(' ', "", 1)).or_insert(place + 1);
            }
            let bytes = byte_alphabet();
            let mut ranked: Vec<(usize, u32, Vec<u8>)> = normal()
                .filter_map(|(id, (text, _))| {
                    let rank = if text.chars().count() == 1 { 0 } else { *made.get(text)? };
                    Some((rank, id, text.chars().map(|c| bytes[&c]).collect()))
                })
                .collect();
            ranked.sort();
            config.split = crate::patterns(vocabulary.pre)
                .iter()
                .map(|pattern| split(pattern, SplitBehavior::Isolate))
                .collect();
            let vocab = ranked.into_iter().map(|(_, id, bytes)| Token { id, bytes }).collect();
            Model::BytePair { vocab, chars: false }
        }
        pelton_tokenizer::Model::SentencePiece => {
            let scores = vocabulary.scores.as_ref().unwrap();
            let mut ranked: Vec<(u32, &str)> = normal().map(|(id, (text, _))| (id, text)).collect();
            ranked.sort_by(|a, b| scores[b.0 as usize].total_cmp(&scores[a.0 as usize]));
            let mut vocab: Vec<Token> = ranked
                .into_iter()
                .map(|(id, text)| Token { id, bytes: text.as_bytes().to_vec() })
                .collect();
            let mut known: HashSet<Vec<u8>> =
                vocab.iter().map(|token| token.bytes.clone()).collect();
            for (id, (text, kind)) in tokens() {
                if *kind == TokenType::Byte {
                    let bytes = vec![u8::from_str_radix(&text[3..5], 16).unwrap()];
                    if known.insert(bytes.clone()) {
                        vocab.push(Token { id, bytes });
                    }
                }
            }
            config.fallback = vec![Fallback::Bytes, Fallback::Unknown];
            config.normalization = vec![
                Normalization::Prepend { prepend: "▁".into() },
                Normalization::Replace {
                    pattern: NormalizationReplacePattern::Character(' '),
                    replacement: "▁".into(),
                },
            ];
            Model::BytePair { vocab, chars: true }
        }
        pelton_tokenizer::Model::WordPiece => {
            let replace = |pattern: &str, by: &str| Normalization::Replace {
                pattern: NormalizationReplacePattern::Regex(Regex::new(pattern).unwrap()),
                replacement: by.into(),
            };
            config.fallback = vec![Fallback::Unknown];
            config.templates = vec![Template {
                content: "##".into(),
                position: InsertionPosition::WordContinuation,
            }];
            config.normalization = vec![
                replace(r"[\x00\u{fffd}\p{Cc}\p{Cf}&&[^\t\n\r]]", ""),
                replace(r"\s", " "),
                replace(
                    r"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{F900}-\x{FAFF}])",
                    " $1 ",
                ),
                Normalization::Unicode { scheme: UnicodeNormalization::NFD },
                replace(r"\p{Mn}", ""),
                Normalization::CaseFold { upper: false },
            ];
            config.split = vec![
                split(r"\s+", SplitBehavior::Remove),
                split(r"[\p{P}!-/:-@\[-`{-~]", SplitBehavior::Isolate),
            ];
            let vocab = normal().map(|(id, (text, _))| {
                let text = text.strip_prefix('▁').map_or(format!("##{text}"), str::to_owned);
                Token { id, bytes: text.into_bytes() }
            });
            Model::WordPiece { vocab: vocab.collect(), max_word_chars: 100 }
        }
        pelton_tokenizer::Model::Unigram => unreachable!("none of the seven"),
    };
    let mut specials: Vec<SpecialToken> = tokens()
        .filter_map(|(id, (text, kind))| {
            let kind = match kind {
                TokenType::UserDefined => SpecialTokenKind::Priority,
                _ if Some(id) == vocabulary.unknown && vocabulary.merges.is_none() => {
                    SpecialTokenKind::Unknown
                }
                _ => return None,
            };
            let bytes = text.as_bytes().to_vec();
            Some(SpecialToken { id, bytes, kind, ident: None, score: id as f32, extract: true })
        })
        .collect();
    specials.sort_by_key(|special| std::cmp::Reverse(special.bytes.len()));
    let meta = Metadata { source: "tokenizers".into(), ..Metadata::default() };
    let kitoken = Kitoken::new(model, specials, config, meta).unwrap();
    Box::new(move |text| kitoken.encode(text, false).unwrap())
}

fn byte_alphabet() -> HashMap<char, u8> {
    let mut hidden = '\u{100}'..;
    (0..=255u8)
        .map(|byte| match byte {
            0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => (char::from(byte), byte),
            _ => (hidden.next().unwrap(), byte),
        })
        .collect()
}
