//! Pixels of all kinds as red, green and blue bytes, in place.
//!
//! As transformers' `convert_to_rgb` does, transparency is put on white. As Pillow does, the higher
//! byte of a value of 16 bits counts.

use image::ColorType;

/// Converts pixels; `None` for a kind that no decoder gives.
pub(super) fn convert(pixels: &mut Vec<u8>, kind: ColorType) -> Option<()> {
    match kind {
        ColorType::L8 => spread(pixels),
        ColorType::L16 => {
            halve(pixels);
            spread(pixels);
        }
        ColorType::La8 => compact::<2>(pixels, |[grey, alpha]| [on_white(grey, alpha); 3]),
        ColorType::La16 => {
            halve(pixels);
            compact::<2>(pixels, |[grey, alpha]| [on_white(grey, alpha); 3]);
        }
        ColorType::Rgb8 => {}
        ColorType::Rgb16 => halve(pixels),
        ColorType::Rgba8 => compact::<4>(pixels, rgba),
        ColorType::Rgba16 => {
            halve(pixels);
            compact::<4>(pixels, rgba);
        }
        _ => return None,
    }
    Some(())
}

fn rgba([red, green, blue, alpha]: [u8; 4]) -> [u8; 3] {
    [red, green, blue].map(|value| on_white(value, alpha))
}

/// A value on white: Pillow's `alpha_composite` over opaque white. Its fractions have seven bits.
fn on_white(value: u8, alpha: u8) -> u8 {
    let (value, alpha) = (u32::from(value), u32::from(alpha));
    let sum = (value * alpha + 255 * (255 - alpha) + 0x80) << 7;
    ((((sum >> 8) + sum) >> 8) >> 7) as u8
}

/// Keeps the higher byte of each value of 16 bits.
fn halve(pixels: &mut Vec<u8>) {
    let count = pixels.len() / 2;
    for i in 0..count {
        pixels[i] = (u16::from_ne_bytes([pixels[2 * i], pixels[2 * i + 1]]) >> 8) as u8;
    }
    pixels.truncate(count);
}

/// Replaces pixels of `N` bytes by pixels of three. The new ones of `N < 3` bytes are made from
/// the end on.
fn compact<const N: usize>(pixels: &mut Vec<u8>, new: impl Fn([u8; N]) -> [u8; 3]) {
    let count = pixels.len() / N;
    let put = |pixels: &mut Vec<u8>, i: usize| {
        let old = std::array::from_fn(|k| pixels[N * i + k]);
        pixels[3 * i..3 * i + 3].copy_from_slice(&new(old));
    };
    if N < 3 {
        pixels.resize(count * 3, 0);
        (0..count).rev().for_each(|i| put(pixels, i));
    } else {
        (0..count).for_each(|i| put(pixels, i));
        pixels.truncate(count * 3);
    }
}

/// Repeats grey values.
fn spread(pixels: &mut Vec<u8>) {
    compact::<1>(pixels, |[grey]| [grey; 3]);
}
