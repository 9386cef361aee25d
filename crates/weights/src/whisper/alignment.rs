//! The heads whose attention follows the audio, for the times of words.

use super::Sizes;

/// A model of OpenAI: its tokens, its width, the layers of its encoder and its decoder, and pairs
/// of a layer and a head.
struct Known {
    vocab: usize,
    width: usize,
    layers: [usize; 2],
    heads: &'static [[i32; 2]],
}

/// The heads that OpenAI published (`_ALIGNMENT_HEADS` in `whisper/__init__.py`, MIT). Large v1 and
/// v2 differ in their heads and in no size, so neither is here.
const TABLE: [Known; 10] = [
    // tiny.en
    Known {
        vocab: 51_864,
        width: 384,
        layers: [4, 4],
        heads: &[[1, 0], [2, 0], [2, 5], [3, 0], [3, 1], [3, 2], [3, 3], [3, 4]],
    },
    // tiny
    Known {
        vocab: 51_865,
        width: 384,
        layers: [4, 4],
        heads: &[[2, 2], [3, 0], [3, 2], [3, 3], [3, 4], [3, 5]],
    },
    // base.en
    Known {
        vocab: 51_864,
        width: 512,
        layers: [6, 6],
        heads: &[[3, 3], [4, 7], [5, 1], [5, 5], [5, 7]],
    },
    // base
    Known {
        vocab: 51_865,
        width: 512,
        layers: [6, 6],
        heads: &[[3, 1], [4, 2], [4, 3], [4, 7], [5, 1], [5, 2], [5, 4], [5, 6]],
    },
    // small.en
    Known {
        vocab: 51_864,
        width: 768,
        layers: [12, 12],
        heads: &[
            [6, 6],
            [7, 0],
            [7, 3],
            [7, 8],
            [8, 2],
            [8, 5],
            [8, 7],
            [9, 0],
            [9, 4],
            [9, 8],
            [9, 10],
            [10, 0],
            [10, 1],
            [10, 2],
            [10, 3],
            [10, 6],
            [10, 11],
            [11, 2],
            [11, 4],
        ],
    },
    // small
    Known {
        vocab: 51_865,
        width: 768,
        layers: [12, 12],
        heads: &[[5, 3], [5, 9], [8, 0], [8, 4], [8, 7], [8, 8], [9, 0], [9, 7], [9, 9], [10, 5]],
    },
    // medium.en
    Known {
        vocab: 51_864,
        width: 1024,
        layers: [24, 24],
        heads: &[
            [11, 4],
            [14, 1],
            [14, 12],
            [14, 14],
            [15, 4],
            [16, 0],
            [16, 4],
            [16, 9],
            [17, 12],
            [17, 14],
            [18, 7],
            [18, 10],
            [18, 15],
            [20, 0],
            [20, 3],
            [20, 9],
            [20, 14],
            [21, 12],
        ],
    },
    // medium
    Known {
        vocab: 51_865,
        width: 1024,
        layers: [24, 24],
        heads: &[[13, 15], [15, 4], [15, 15], [16, 1], [20, 0], [23, 4]],
    },
    // large-v3
    Known {
        vocab: 51_866,
        width: 1280,
        layers: [32, 32],
        heads: &[
            [7, 0],
            [10, 17],
            [12, 18],
            [13, 12],
            [16, 1],
            [17, 14],
            [19, 11],
            [21, 4],
            [24, 1],
            [25, 6],
        ],
    },
    // large-v3-turbo
    Known {
        vocab: 51_866,
        width: 1280,
        layers: [32, 4],
        heads: &[[2, 4], [2, 11], [3, 3], [3, 6], [3, 11], [3, 14]],
    },
];

/// The heads of a model that has the sizes of one of OpenAI's: layer, head, layer, head ….
pub(crate) fn known_heads(sizes: &Sizes) -> Option<Vec<i32>> {
    let layers = [sizes.encoder.layers, sizes.decoder.layers];
    let known = TABLE.iter().find(|known| {
        known.vocab == sizes.vocab
            && known.width == sizes.width
            && known.layers == layers
            && known.width == 64 * sizes.decoder.heads
    })?;
    Some(known.heads.as_flattened().to_vec())
}

#[cfg(test)]
mod tests {
    use super::super::Side;
    use super::*;

    /// Name, tokens, width, layers of the encoder and of the decoder, heads.
    type Row = (String, usize, usize, usize, usize, Vec<i32>);

    /// OpenAI's table, as `make_whisper.py` unpacks it.
    #[test]
    fn heads_of_published_models() {
        let all = include_str!("../../tests/fixtures/whisper/heads.json");
        let all: Vec<Row> = serde_json::from_str(all).unwrap();
        assert_eq!(all.len(), TABLE.len());
        for (name, vocab, width, layers, text_layers, heads) in all {
            let side = |layers| Side { context: 1, heads: width / 64, layers, inner: 4 * width };
            let (encoder, decoder) = (side(layers), side(text_layers));
            let sizes = Sizes { mels: 80, width, vocab, encoder, decoder };
            assert_eq!(known_heads(&sizes), Some(heads), "{name}");
            assert_eq!(known_heads(&Sizes { width: width + 64, ..sizes }), None, "{name}");
        }
    }
}
