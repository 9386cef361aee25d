//! The sizes of a file and its filters.

use super::invalid::invalid;
use crate::Problem;
use crate::gguf::cursor::Cursor;
use crate::whisper::{FREQUENCIES, Limit, Side, Sizes, filters, limits, specials};

/// The factor of the version of the block layouts in `ftype`.
const VERSION_FACTOR: u32 = 1000;

/// Values of `ftype` without that version: F32, F16, Q4_0, Q4_1, Q8_0, Q5_0, Q5_1, Q2_K to Q6_K.
const TYPES: [u32; 12] = [0, 1, 2, 3, 7, 8, 9, 10, 11, 12, 13, 14];

/// The largest difference of a filter's weight from the formula; the stored ones differ by 4e-9.
const TOLERANCE: f64 = 1e-6;

/// The sizes, and the version of the block layouts.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) sizes: Sizes,
    pub(super) layout: u32,
}

impl Header {
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self, Problem> {
        let mut field = |name: &str| cursor.u32(format_args!("{name}"));
        let vocab = field("n_vocab")?;
        if specials(vocab as usize).is_none() {
            let expected = "51864, 51865 or 51866 of Whisper; a GGUF file is read of other models";
            return Err(invalid("n_vocab", vocab, expected));
        }
        let mut size = |name: &str, limit: Limit| {
            let value = field(name)?;
            limit.check(value as usize).map_err(|expected| invalid(name, value, expected))
        };
        let audio_context = size("n_audio_ctx", limits::CONTEXT)?;
        let width = size("n_audio_state", limits::WIDTH)?;
        let audio_heads = size("n_audio_head", limits::HEADS)?;
        let audio_layers = size("n_audio_layer", limits::LAYERS)?;
        let text_context = size("n_text_ctx", limits::CONTEXT)?;
        let text_width = size("n_text_state", limits::WIDTH)?;
        let text_heads = size("n_text_head", limits::HEADS)?;
        let text_layers = size("n_text_layer", limits::LAYERS)?;
        let mels = size("n_mels", limits::MELS)?;
        let ftype = field("ftype")?;

        if text_width != width {
            return Err(invalid("n_text_state", text_width, format!("n_audio_state, {width}")));
        }
        for (name, heads) in [("n_audio_head", audio_heads), ("n_text_head", text_heads)] {
            if !width.is_multiple_of(heads) {
                return Err(invalid(name, heads, format!("a divisor of the width {width}")));
            }
        }
        if !TYPES.contains(&(ftype % VERSION_FACTOR)) {
            let expected = "0 to 3 or 7 to 14, with the version of block layouts in thousands";
            return Err(invalid("ftype", ftype, expected));
        }
        let inner = 4 * width;
        let sizes = Sizes {
            mels,
            width,
            vocab: vocab as usize,
            encoder: Side {
                context: audio_context,
                heads: audio_heads,
                layers: audio_layers,
                inner,
            },
            decoder: Side { context: text_context, heads: text_heads, layers: text_layers, inner },
        };
        Ok(Self { sizes, layout: ftype / VERSION_FACTOR })
    }
}

/// Reads the filters and compares them with the formula, which is used in their place.
pub(super) fn check_filters(cursor: &mut Cursor<'_>, mels: usize) -> Result<(), Problem> {
    for (name, expected) in [("n_mel of the filters", mels), ("n_fft of the filters", FREQUENCIES)]
    {
        let found = cursor.u32(format_args!("{name}"))?;
        if found as usize != expected {
            return Err(invalid(name, found, expected));
        }
    }
    let bytes = 4 * mels * FREQUENCIES;
    let (stored, _) = cursor.take(bytes as u64, format_args!("the filters"))?.as_chunks();
    for (at, (bytes, expected)) in stored.iter().zip(filters(mels)).enumerate() {
        let found = f64::from(f32::from_le_bytes(*bytes));
        if found.is_nan() || (found - expected).abs() > TOLERANCE {
            let field = format!("filter {}, {}", at / FREQUENCIES, at % FREQUENCIES);
            return Err(invalid(&field, found, format!("{expected:.6} of Slaney's mel scale")));
        }
    }
    Ok(())
}
