#!/usr/bin/env python3
"""Writes the first seeds of the target `decode`: a file of 0.05 s in each container and codec.

    python3 make_seeds.py

Needs ffmpeg 5.1. Its sources are the test files.
"""

import pathlib
import subprocess

HERE = pathlib.Path(__file__).parent
SOURCE = HERE / "../tests/fixtures/containers/s16.wav"
SEEDS = {
    "u8.wav": "-c:a pcm_u8",
    "s16.wav": "-c:a pcm_s16le",
    "s24.wav": "-c:a pcm_s24le -ac 1",
    "f32.wav": "-c:a pcm_f32le -ac 1",
    "f64.wav": "-c:a pcm_f64le -ac 1 -t 0.02",
    "alaw.wav": "-c:a pcm_alaw",
    "mulaw.wav": "-c:a pcm_mulaw",
    "adpcm_ms.wav": "-c:a adpcm_ms",
    "adpcm_ima.wav": "-c:a adpcm_ima_wav",
    "s16.aiff": "-c:a pcm_s16be",
    "s16.flac": "-c:a flac",
    "flac.ogg": "-c:a flac",
    "flac.mkv": "-c:a flac",
    "pcm.mkv": "-c:a pcm_s16le",
    "alac.m4a": "-c:a alac",
    "aac.m4a": "-c:a aac",
    "fragmented.mp4": "-c:a aac -movflags frag_keyframe+empty_moov",
    "aac.mkv": "-c:a aac",
    "adts.aac": "-c:a aac",
    "vorbis.webm": "-c:a libvorbis -ac 1",
    "vorbis.ogg": "-c:a libvorbis -ac 1",
    "opus.ogg": "-c:a libopus",
    "cbr.mp3": "-c:a libmp3lame -b:a 32k",
    "mp2.mkv": "-c:a mp2 -b:a 64k",
}

(HERE / "seeds/decode").mkdir(parents=True, exist_ok=True)
for name, options in SEEDS.items():
    command = ["ffmpeg", "-y", "-nostdin", "-loglevel", "error", "-t", "0.05", "-i", SOURCE, "-bitexact", "-fflags", "+bitexact"]
    subprocess.run([*command, *options.split(), HERE / "seeds/decode" / name], check=True)
