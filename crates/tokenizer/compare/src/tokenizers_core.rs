//! Hugging Face's `tokenizers`.

use pelton_tokenizer::{Model, TokenType, Vocabulary};
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::{self, BertNormalizer, Prepend, Replace};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer};

use crate::Encode;

pub(crate) fn build(vocabulary: &Vocabulary<'_>) -> Encode {
    let vocab: Vocab = vocabulary.tokens.iter().map(|t| t.to_string()).zip(0..).collect();
    let mut tokenizer = match vocabulary.model {
        Model::Bpe => {
            let merges = vocabulary.merges.as_ref().unwrap().iter();
            let merges = merges.map(|m| m.split_once(' ').unwrap());
            let merges = merges.map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
            let bpe = BPE::builder()
                .vocab_and_merges(vocab, merges)
                .ignore_merges(vocabulary.pre == Some("llama-bpe"))
                .build();
            let mut tokenizer = Tokenizer::new(bpe.unwrap());
            let mut steps: Vec<PreTokenizerWrapper> = Vec::new();
            for pattern in crate::patterns(vocabulary.pre) {
                let pattern = SplitPattern::Regex(pattern);
                steps.push(
                    Split::new(pattern, SplitDelimiterBehavior::Isolated, false).unwrap().into(),
                );
            }
            steps.push(ByteLevel::new(false, false, false).into());
            tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
            tokenizer
        }
        Model::SentencePiece => {
            let bpe = BPE::builder()
                .vocab_and_merges(vocab, merges_by_score(vocabulary))
                .unk_token("<unk>".into())
                .fuse_unk(true)
                .byte_fallback(true)
                .build();
            let mut tokenizer = Tokenizer::new(bpe.unwrap());
            let steps =
                vec![Prepend::new("▁".into()).into(), Replace::new(" ", "▁").unwrap().into()];
            tokenizer.with_normalizer(Some(normalizers::Sequence::new(steps))).unwrap();
            tokenizer
        }
        Model::WordPiece => {
            let texts = vocabulary.tokens.iter().zip(&vocabulary.types).zip(0..);
            let vocab: Vocab = texts
                .map(|((text, kind), id)| match text.strip_prefix('▁') {
                    Some(start) => (start.to_owned(), id),
                    None if *kind == TokenType::Normal => (format!("##{text}"), id),
                    None => (text.to_string(), id),
                })
                .collect();
            let model = WordPiece::builder().vocab(vocab).unk_token("[UNK]".into()).build();
            let mut tokenizer = Tokenizer::new(model.unwrap());
            tokenizer.with_normalizer(Some(BertNormalizer::new(true, true, None, true))).unwrap();
            tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
            tokenizer
        }
        Model::Unigram => unreachable!("none of the seven"),
    };
    let user_defined = vocabulary.tokens.iter().zip(&vocabulary.types);
    let user_defined = user_defined.filter(|(_, kind)| **kind == TokenType::UserDefined);
    let added = user_defined.map(|(t, _)| AddedToken::from(t.to_string(), false).normalized(false));
    tokenizer.add_tokens(added.collect::<Vec<_>>()).unwrap();
    Box::new(move |text| tokenizer.encode_fast(text, false).unwrap().get_ids().to_vec())
}

/// Derives merges from scores, as in `transformers`.
fn merges_by_score(vocabulary: &Vocabulary<'_>) -> Vec<(String, String)> {
    let ids: std::collections::HashMap<&str, u32> =
        vocabulary.tokens.iter().copied().zip(0..).collect();
    let scores = vocabulary.scores.as_ref().unwrap();
    let mut merges = Vec::new();
    for ((text, kind), score) in vocabulary.tokens.iter().zip(&vocabulary.types).zip(scores) {
        if *kind != TokenType::Normal {
            continue;
        }
        for (at, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(at);
            if let (Some(a), Some(b)) = (ids.get(left), ids.get(right)) {
                merges.push((-score, *a, *b, left, right));
            }
        }
    }
    merges.sort_by(|x, y| x.0.total_cmp(&y.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    merges.into_iter().map(|(.., left, right)| (left.to_owned(), right.to_owned())).collect()
}
