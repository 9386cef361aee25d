//! Responses with a status that refuses, as sentences.

use std::time::Duration;

use ureq::{Body, http::Response};

use crate::{
    error::{Error, without_query},
    failure::{Failure, LONGEST_PAUSE, Retry, text},
};

/// The most characters of a hub's own words that an error repeats.
const WORDS: usize = 300;

/// A response with a status that refuses. `has_token` tells whether the request had the user's
/// token.
pub(crate) fn refusal(url: &str, response: &Response<Body>, has_token: bool) -> Failure {
    let status = response.status().as_u16();
    let asked = text(response.headers(), "retry-after").and_then(pause);
    let retry = match (status, asked) {
        (408 | 429 | 500 | 502 | 503 | 504, Some(pause)) => Retry::After(pause),
        (408 | 429 | 500 | 502 | 503 | 504, None) => Retry::Later,
        _ => Retry::Never,
    };
    let header = |name| text(response.headers(), name).unwrap_or_default();
    let mut sentence = meaning(url, status, header("x-error-code"), has_token);
    if let Some(pause) = asked.filter(|pause| *pause > LONGEST_PAUSE) {
        sentence += &format!("; it asks for a pause of {} seconds", pause.as_secs());
    }
    let words: String = header("x-error-message").trim().chars().take(WORDS).collect();
    if !words.is_empty() {
        sentence += &format!("; it says: {}", pelton_printable::line(&words));
    }
    Failure { error: Error::Status { url: without_query(url), status, sentence }, retry }
}

/// The meaning of a status, and what to do. The codes are those of `huggingface_hub`'s
/// `hf_raise_for_status`.
fn meaning(url: &str, status: u16, code: &str, has_token: bool) -> String {
    let page = page(url).unwrap_or_else(|| "its page".to_owned());
    match (status, code) {
        (401 | 403, "GatedRepo") if has_token => format!(
            "the model is gated, and the account of HF_TOKEN has no access: accept its conditions at {page}"
        ),
        (401 | 403, "GatedRepo") => format!(
            "the model is gated: accept its conditions at {page}, then set HF_TOKEN to a token of that account"
        ),
        (_, "DisabledRepo") => "the hub has disabled the model".to_owned(),
        (_, "RevisionNotFound") => "there is no such revision (branch, tag or commit)".to_owned(),
        (_, "EntryNotFound") => "there is no such file at this revision".to_owned(),
        (401, _) if has_token => {
            "there is no such model, or HF_TOKEN is no token that may read it".to_owned()
        }
        (401, _) | (404, "RepoNotFound") => {
            "there is no such model, or it is private: set HF_TOKEN to a token that may read it"
                .to_owned()
        }
        (403, _) => format!(
            "it is not open to you: accept its conditions at {page}, and set HF_TOKEN to a token that may read it"
        ),
        (404, _) => "there is no such model, revision or file".to_owned(),
        (416, _) => {
            "the file is shorter than announced; it may have changed, so try again".to_owned()
        }
        (429, _) => "too many requests: wait, or set HF_TOKEN for a higher limit".to_owned(),
        (500..=599, _) => "the host has a fault; try again later".to_owned(),
        _ => "expected the status 200 or 206".to_owned(),
    }
}

/// The page of the model of a request to a hub.
fn page(url: &str) -> Option<String> {
    let url = without_query(url);
    let (host, rest) = match url.split_once("/api/models/") {
        Some((host, rest)) => (host.to_owned(), rest.to_owned()),
        None => {
            let (before, _) = url.split_once("/resolve/")?;
            let mut parts = before.rsplitn(3, '/');
            let (name, owner, host) = (parts.next()?, parts.next()?, parts.next()?);
            (host.to_owned(), format!("{owner}/{name}"))
        }
    };
    let mut parts = rest.split('/');
    let (owner, name) = (parts.next()?, parts.next()?);
    Some(format!("{host}/{owner}/{name}"))
}

/// The pause of `Retry-After`: seconds. A date is answered with the usual pause.
fn pause(value: &str) -> Option<Duration> {
    value.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_models() {
        for (url, expected) in [
            ("https://h/api/models/o/n/revision/main?x", Some("https://h/o/n")),
            ("https://h/deep/o/n/resolve/abc/d/m.gguf", Some("https://h/deep/o/n")),
            ("https://h/m.gguf", None),
        ] {
            assert_eq!(page(url).as_deref(), expected, "{url}");
        }
    }
}
