//! Options of peers for the extension of a model's context.

use serde_json::Value;

use super::convert::{Became, expected};

const OWN_WAYS: &str =
    "--rope-scaling yarn or linear, --rope-scale and --yarn-orig-ctx set an extension";

fn words(words: impl IntoIterator<Item = String>) -> Became {
    Became::Words(words.into_iter().collect())
}

/// A number, where 0 and negative ones leave that of the file.
pub(super) fn stated(value: &str, own: &'static str) -> Became {
    match value.parse::<f64>() {
        Ok(number) if number <= 0.0 => words([]),
        _ => words([format!("{own}={value}")]),
    }
}

/// The inverse of a factor.
pub(super) fn inverse(value: &str, own: &'static str) -> Became {
    match value.parse::<f64>() {
        Ok(number) if number > 0.0 => words([format!("{own}={}", 1.0 / number)]),
        Ok(0.0) => words([]),
        _ => expected("a number above 0"),
    }
}

/// A key of the metadata of rotations, where negative numbers leave that of the file.
fn key(value: &str, key: &str) -> Became {
    match value.parse::<f64>() {
        Ok(number) if number < 0.0 => words([]),
        Ok(number) => words([format!("--override-kv=*.rope.scaling.{key}=float:{number}")]),
        Err(_) => expected("a number"),
    }
}

pub(super) fn attention_factor(value: &str, _: &'static str) -> Became {
    key(value, "attn_factor")
}

pub(super) fn beta_slow(value: &str, _: &'static str) -> Became {
    key(value, "yarn_beta_slow")
}

pub(super) fn beta_fast(value: &str, _: &'static str) -> Became {
    key(value, "yarn_beta_fast")
}

/// The part of extrapolation, which is whole.
pub(super) fn whole(value: &str, _: &'static str) -> Became {
    match value.parse::<f64>() {
        Ok(number) if number < 0.0 || number == 1.0 => words([]),
        _ => Became::Refused("yarn blends its two rules wholly".to_owned()),
    }
}

/// A change of one key.
pub(super) fn change(value: &str, own: &'static str) -> Became {
    words(changes(value).iter().map(|change| format!("{own}={change}")))
}

/// Changes with commas between them. A comma of a text has a backslash before it.
fn changes(value: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut characters = value.chars().peekable();
    while let Some(character) = characters.next() {
        let last = all.len() - 1;
        match character {
            '\\' if characters.next_if_eq(&',').is_some() => all[last].push(','),
            ',' => all.push(String::new()),
            other => all[last].push(other),
        }
    }
    all
}

/// The extension in the form of config.json.
pub(super) fn of_config(value: &str, _: &'static str) -> Became {
    match serde_json::from_str::<Value>(value) {
        Ok(object) => scaling(&object),
        Err(_) => expected("an object in JSON, such as {\"rope_type\": \"yarn\", \"factor\": 4}"),
    }
}

/// Pelton's options for an extension in the form of config.json.
pub(super) fn scaling(object: &Value) -> Became {
    let kind = object["rope_type"].as_str().or(object["type"].as_str());
    let (Some(kind @ ("yarn" | "linear")), Some(factor)) = (kind, object["factor"].as_f64()) else {
        return Became::Refused(OWN_WAYS.to_owned());
    };
    const KNOWN: [&str; 5] =
        ["rope_type", "type", "factor", "original_max_position_embeddings", "rope_theta"];
    let others = object.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    if let Some(other) = others.into_iter().find(|key| !KNOWN.contains(key)) {
        return Became::Refused(format!("{other} is no field that Pelton knows; {OWN_WAYS}"));
    }
    let mut all = vec![format!("--rope-scaling={kind}"), format!("--rope-scale={factor}")];
    if let Some(original) = object["original_max_position_embeddings"].as_u64() {
        all.push(format!("--yarn-orig-ctx={original}"));
    }
    if let Some(theta) = object["rope_theta"].as_f64() {
        all.push(format!("--rope-freq-base={theta}"));
    }
    words(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_of_texts_have_a_backslash() {
        assert_eq!(changes("a=int:1"), ["a=int:1"]);
        assert_eq!(changes(r"a=str:x\,y,b=bool:true"), ["a=str:x,y", "b=bool:true"]);
    }
}
