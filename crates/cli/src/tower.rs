//! The vision tower of a model, in words and as JSON.

use pelton::{Checkpoint, LoadOptions, TowerOutline};
use serde_json::{Value, json};

use crate::{model, output};

/// The vision tower of a model that is not loaded.
pub(crate) enum Tower {
    /// The model has none.
    None,
    /// A file that has a tower alone, and the text models that it joins.
    Alone(TowerOutline, &'static [&'static str]),
    /// The tower next to a model's text.
    Beside(TowerOutline),
    /// It cannot be read, for this reason.
    Unknown(String),
}

impl Tower {
    /// The tower of the model in a file or directory, or of a name of the program's own.
    pub(crate) fn of(file: &str, checkpoint: &Checkpoint) -> Self {
        match TowerOutline::of(model::source(file), &LoadOptions::default()) {
            Ok(None) => Self::None,
            Ok(Some(tower)) if is_alone(checkpoint) => Self::Alone(tower, checkpoint.tower_joins()),
            Ok(Some(tower)) => Self::Beside(tower),
            Err(error) => Self::Unknown(error.to_string()),
        }
    }

    /// A line about the tower.
    pub(crate) fn line(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Alone(tower, joins) => {
                let of = match joins {
                    [] => "a model".to_owned(),
                    names => format!("a model of {}", names.join(" or ")),
                };
                let width = tower.width;
                Some(format!(
                    "{}; it belongs in the folder of {of} with embeddings of {width}",
                    words(tower)
                ))
            }
            Self::Beside(tower) => {
                let size = output::bytes(tower.bytes);
                let parameters = output::count(tower.parameters);
                let of = format!("{parameters} parameters in {size}");
                Some(format!("{}, {of}, of {}", words(tower), tower.file))
            }
            Self::Unknown(reason) => Some(reason.clone()),
        }
    }

    /// The tower as an object; null without one.
    pub(crate) fn to_json(&self) -> Value {
        let (tower, joins) = match self {
            Self::None => return Value::Null,
            Self::Unknown(reason) => return json!({ "error": reason }),
            Self::Alone(tower, joins) => (tower, Some(joins)),
            Self::Beside(tower) => (tower, None),
        };
        let (side, tokens) = tower.fixed.unzip();
        json!({
            "file": tower.file, "projector": tower.projector, "layers": tower.layers,
            "width": tower.hidden, "heads": tower.heads, "embedding_width": tower.width,
            "patch": tower.patch, "picture_side": side, "picture_tokens": tokens,
            "token_side": tower.square, "max_picture_tokens": tower.tokens,
            "parameters": tower.parameters, "bytes": tower.bytes, "joins": joins,
        })
    }
}

/// Whether a checkpoint is a tower without a text.
pub(crate) fn is_alone(checkpoint: &Checkpoint) -> bool {
    checkpoint.metadata().string("general.architecture").is_ok_and(|name| name == "clip")
}

/// The family, the sizes and the tokens of a picture.
fn words(tower: &TowerOutline) -> String {
    let TowerOutline { projector, layers, hidden, heads, patch, square, .. } = tower;
    let tokens = match tower.fixed {
        Some((side, tokens)) => format!("{tokens} tokens for {side} × {side} pixels"),
        None => format!("a token for {square} × {square} pixels, at most {}", tower.tokens),
    };
    format!(
        "{projector}, {layers} layers × {hidden}, {heads} heads, patches of {patch} pixels, {tokens}"
    )
}
