//! Constraints and samplers on the host, made for a request.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use pelton_constraint::{Compiler, Constraint, Matcher};
use pelton_sampling::chain::BREAKER_LEN_MAX;
use pelton_tokenizer::{Special, TokenType, Tokenizer};

use crate::{
    Error,
    api::GenerateOptions,
    schedule::{DrawConstraint, HostDraw, TextMatcher},
};

/// The most triggers of a request.
const TRIGGERS_MAX: usize = 64;
/// The most bytes of a trigger.
const TRIGGER_BYTES_MAX: usize = 256;

/// The breakers of DRY as strings, and as sequences of tokens.
type Breakers = (Vec<String>, Vec<Vec<u32>>);

/// The state that requests share, made with the first that needs it.
#[derive(Default)]
pub(super) struct Decoding {
    compiler: OnceLock<Result<Compiler, pelton_constraint::Error>>,
    /// Those of the newest request with DRY.
    breakers: Mutex<Option<Breakers>>,
}

impl Decoding {
    /// The chain of a request's samplers, if they run on the host.
    pub(super) fn host_draw(
        &self,
        options: &GenerateOptions,
        tokenizer: Option<&Arc<Tokenizer>>,
    ) -> Result<Option<HostDraw>, Error> {
        let sampling = &options.sampling;
        if !sampling.runs_on_host() {
            return Ok(None);
        }
        let breakers = match sampling.dry_multiplier > 0.0 {
            true => self.breakers(&sampling.dry_breakers, tokenizer),
            false => Vec::new(),
        };
        Ok(Some(HostDraw::new(sampling.chain(breakers).map_err(Error::Sampling)?)))
    }

    /// The compiled constraint of a request.
    pub(super) fn constraint(
        &self,
        options: &GenerateOptions,
        tokenizer: Option<&Arc<Tokenizer>>,
        vocab: usize,
    ) -> Result<Option<DrawConstraint>, Error> {
        let triggers = &options.triggers;
        let lengths = triggers.iter().map(|trigger| trigger.text.len());
        for (option, found, most) in [
            ("the number of triggers", triggers.len(), TRIGGERS_MAX),
            ("the bytes of a trigger", lengths.clone().max().unwrap_or(1), TRIGGER_BYTES_MAX),
        ] {
            if found > most {
                let expected = format!("at most {most}");
                return Err(Error::RequestOption { option, found: found.to_string(), expected });
            }
        }
        if lengths.clone().any(|length| length == 0) {
            let (found, expected) = ("empty".to_owned(), "a text".to_owned());
            return Err(Error::RequestOption { option: "a trigger", found, expected });
        }
        let (Some(constraint), Some(tokenizer)) = (&options.constraint, tokenizer) else {
            return Ok(None);
        };
        let matcher = self.matcher(constraint, tokenizer, options.deadline)?;
        // a token that is forced comes before those of the prompt have their log-probabilities
        let forces = options.logprobs.is_none() && options.prompt_logprobs.is_none();
        let text =
            TextMatcher::new(matcher, Arc::clone(tokenizer), triggers.clone(), forces, vocab);
        Ok(Some(DrawConstraint::new(text, vocab)))
    }

    /// A constraint's matcher; a caller with a deadline does not wait longer.
    fn matcher(
        &self,
        constraint: &Constraint,
        tokenizer: &Arc<Tokenizer>,
        deadline: Option<Duration>,
    ) -> Result<Matcher, pelton_constraint::Error> {
        let compiler = self.compiler.get_or_init(|| Compiler::new(tokenizer));
        let compiler = compiler.as_ref().map_err(Clone::clone)?;
        match deadline {
            Some(wait) => compiler.compile_within(constraint, wait),
            None => compiler.compile(constraint),
        }
    }

    /// Whether a constraint compiles for a vocabulary.
    pub(super) fn check(
        &self,
        constraint: &Constraint,
        tokenizer: Option<&Arc<Tokenizer>>,
    ) -> Result<(), Error> {
        if let Some(tokenizer) = tokenizer {
            self.matcher(constraint, tokenizer, None)?;
        }
        Ok(())
    }

    fn breakers(&self, strings: &[String], tokenizer: Option<&Arc<Tokenizer>>) -> Vec<Vec<u32>> {
        let Some(tokenizer) = tokenizer else { return Vec::new() };
        let mut cached = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        match &*cached {
            Some((known, tokens)) if known == strings => tokens.clone(),
            _ => {
                let tokens = breaker_tokens(tokenizer, strings);
                *cached = Some((strings.to_vec(), tokens.clone()));
                tokens
            }
        }
    }
}

/// The sequences of tokens whose text has a breaker in it: tokens that contain it, and tokens that
/// end in its beginning with those of its rest.
fn breaker_tokens(tokenizer: &Tokenizer, strings: &[String]) -> Vec<Vec<u32>> {
    let mut all = Vec::new();
    for breaker in strings.iter().map(String::as_bytes) {
        for id in 0..tokenizer.vocab_size() as u32 {
            let text = match tokenizer.token_type(id) {
                Some(TokenType::Normal | TokenType::UserDefined | TokenType::Byte) => {
                    tokenizer.token_bytes(id).unwrap_or_default()
                }
                _ => continue,
            };
            if text.windows(breaker.len()).any(|window| window == breaker) {
                all.push(vec![id]);
                continue;
            }
            let least = (text.len() + 1).saturating_sub(breaker.len());
            for begin in least..text.len() {
                let Some(rest) = breaker.strip_prefix(&text[begin..]) else { continue };
                let Ok(rest) = str::from_utf8(rest) else { continue };
                let Ok(tail) = tokenizer.encode(rest, Special::Ignore) else { continue };
                let mut sequence = vec![id];
                sequence.extend(tail);
                sequence.truncate(BREAKER_LEN_MAX);
                all.push(sequence);
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in::built_in;

    #[test]
    fn breakers_are_tokens_that_contain_them_or_begin_them() {
        let tokenizer = Tokenizer::from_metadata(built_in().unwrap().metadata()).unwrap();
        let text = "\" then";
        let all = breaker_tokens(&tokenizer, &[text.to_owned(), "\n".to_owned()]);
        let decoded = |ids: &[u32]| tokenizer.decode(ids, false);
        assert!(!all.is_empty());
        for sequence in &all {
            let decoded = decoded(sequence);
            assert!(decoded.contains(text) || decoded.contains('\n'), "{decoded:?}");
        }
        let whole = tokenizer.encode("\"", Special::Ignore).unwrap();
        assert!(all.iter().any(|sequence| whole.ends_with(&sequence[..1])));
    }
}
