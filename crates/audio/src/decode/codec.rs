//! Names of codecs, for messages.

use symphonia::core::codecs::audio::well_known as id;
use symphonia::core::codecs::audio::{AudioCodecId, CODEC_ID_NULL_AUDIO};

/// The name of a codec as users know it.
pub(crate) fn name(codec: AudioCodecId) -> String {
    let known = match codec {
        CODEC_ID_NULL_AUDIO => "in an unknown codec",
        id::CODEC_ID_VORBIS => "Vorbis",
        id::CODEC_ID_OPUS => "Opus",
        id::CODEC_ID_SPEEX => "Speex",
        id::CODEC_ID_MUSEPACK => "Musepack",
        id::CODEC_ID_MP1 => "MPEG layer 1",
        id::CODEC_ID_MP2 => "MPEG layer 2",
        id::CODEC_ID_MP3 => "MP3",
        id::CODEC_ID_AAC => "AAC",
        id::CODEC_ID_AC3 => "AC-3",
        id::CODEC_ID_EAC3 => "E-AC-3",
        id::CODEC_ID_AC4 => "AC-4",
        id::CODEC_ID_DCA => "DTS",
        id::CODEC_ID_WMA => "WMA",
        id::CODEC_ID_FLAC => "FLAC",
        id::CODEC_ID_ALAC => "ALAC",
        id::CODEC_ID_WAVPACK => "WavPack",
        id::CODEC_ID_MONKEYS_AUDIO => "Monkey's Audio",
        id::CODEC_ID_TTA => "TTA",
        id::CODEC_ID_TRUEHD => "TrueHD",
        id::CODEC_ID_PCM_ALAW => "A-law PCM",
        id::CODEC_ID_PCM_MULAW => "µ-law PCM",
        id::CODEC_ID_ADPCM_MS => "Microsoft ADPCM",
        id::CODEC_ID_ADPCM_IMA_WAV | id::CODEC_ID_ADPCM_IMA_QT => "IMA ADPCM",
        id::CODEC_ID_ADPCM_G722 => "G.722",
        id::CODEC_ID_ADPCM_G726 | id::CODEC_ID_ADPCM_G726LE => "G.726",
        other if is_pcm(other) => "PCM",
        other => return format!("in the codec {other}"),
    };
    known.to_owned()
}

/// Whether a codec stores samples as they are.
pub(crate) fn is_pcm(codec: AudioCodecId) -> bool {
    matches!(
        codec,
        id::CODEC_ID_PCM_S8
            | id::CODEC_ID_PCM_U8
            | id::CODEC_ID_PCM_S16LE
            | id::CODEC_ID_PCM_S16BE
            | id::CODEC_ID_PCM_S24LE
            | id::CODEC_ID_PCM_S24BE
            | id::CODEC_ID_PCM_S32LE
            | id::CODEC_ID_PCM_S32BE
            | id::CODEC_ID_PCM_F32LE
            | id::CODEC_ID_PCM_F32BE
            | id::CODEC_ID_PCM_F64LE
            | id::CODEC_ID_PCM_F64BE
            | id::CODEC_ID_PCM_ALAW
            | id::CODEC_ID_PCM_MULAW
    )
}
