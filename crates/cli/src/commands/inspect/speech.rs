//! The sizes of a model that recognizes speech.

use std::fmt;

use anyhow::Result;
use pelton::Checkpoint;
use serde_json::json;

/// Tokens of OpenAI's English models, which have tokens of other languages and do not use them.
const ENGLISH_VOCAB: usize = 51_864;

/// The sizes of a Whisper model.
pub(super) struct Speech {
    mels: usize,
    /// Positions of an encoded window, each of 20 ms.
    positions: usize,
    languages: usize,
    tokens: usize,
    /// Layers and width of the encoder and of the decoder.
    encoder: [usize; 2],
    decoder: [usize; 2],
    /// Heads that give the times of words.
    heads: usize,
}

impl Speech {
    /// The sizes of a checkpoint, or `None` if it does not recognize speech.
    pub(super) fn of(checkpoint: &Checkpoint) -> Result<Option<Self>> {
        let metadata = checkpoint.metadata();
        if metadata.opt_string("general.architecture")? != Some("whisper") {
            return Ok(None);
        }
        let size = |key: &str| metadata.usize(&format!("whisper.{key}"));
        let side = |name: &str| {
            let key = |end: &str| size(&format!("{name}.{end}"));
            Ok::<_, anyhow::Error>([key("block_count")?, key("embedding_length")?])
        };
        let texts = metadata.string_array("tokenizer.ggml.tokens")?;
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        let at = |text: &str| texts.iter().position(|own| *own == text);
        // The languages are the tokens between the start and the first task.
        let task = at("<|translate|>").or_else(|| at("<|transcribe|>"));
        let languages = match at("<|startoftranscript|>").zip(task) {
            _ if texts.len() == ENGLISH_VOCAB => 1,
            Some((start, task)) => task.saturating_sub(start + 1),
            None => 0,
        };
        let heads = metadata.opt_i32_array("whisper.alignment_heads")?;
        Ok(Some(Self {
            mels: size("encoder.mels_count")?,
            positions: size("encoder.context_length")?,
            languages,
            tokens: texts.len(),
            encoder: side("encoder")?,
            decoder: side("decoder")?,
            heads: heads.map_or(0, |heads| heads.len() / 2),
        }))
    }

    pub(super) fn to_json(&self) -> serde_json::Value {
        let side = |[layers, width]: [usize; 2]| json!({"layers": layers, "width": width});
        json!({
            "languages": self.languages,
            "mels": self.mels,
            "window_seconds": self.seconds(),
            "tokens": self.tokens,
            "encoder": side(self.encoder),
            "decoder": side(self.decoder),
            "alignment_heads": self.heads,
        })
    }

    fn seconds(&self) -> f64 {
        self.positions as f64 / 50.0
    }
}

impl fmt::Display for Speech {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.languages {
            1 => write!(f, "speech recognition: English")?,
            languages => write!(f, "speech recognition: {languages} languages")?,
        }
        write!(f, ", windows of {} s, {} mels", self.seconds(), self.mels)?;
        for (name, [layers, width]) in [("encoder", self.encoder), ("decoder", self.decoder)] {
            write!(f, ", {name} {layers} × {width}")?;
        }
        write!(f, ", {} tokens, ", self.tokens)?;
        match self.heads {
            0 => write!(f, "no known heads for the times of words"),
            1 => write!(f, "1 head for the times of words"),
            heads => write!(f, "{heads} heads for the times of words"),
        }
    }
}
