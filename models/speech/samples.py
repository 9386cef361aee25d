"""Make the WAV files of `samples/`: held-out sentences by voices of Flite, at 16 kHz and 8 bits.

    python samples.py        # needs libflite1
"""

import json
import pathlib
import wave

import numpy as np
import voices

SAMPLES = [
    ("call", "awb", "Call Clara today."),
    ("song", "awb", "Play the ninth song of Jack."),
    ("times", "kal16", "How much is seven times eighteen?"),
    ("gallons", "kal16", "Divide two gallons by eleven."),
    ("polish", "rms", "Sam learned Polish in Boston."),
    ("greek", "rms", "Robert learned Greek in Oslo."),
    ("dutch", "slt", "Kate learned Dutch in Geneva."),
    ("tomorrow", "slt", "Call Daniel tomorrow."),
]
STRETCH = 0.85
EDGE = 800  # samples of silence at both ends


def main():
    folder = pathlib.Path(__file__).parent / "samples"
    folder.mkdir(exist_ok=True)
    texts = {}
    for name, voice, text in SAMPLES:
        samples = voices.Voice("flite", voice, STRETCH).speak(text).astype(np.float32)
        samples = np.pad(samples * (100 / np.abs(samples).max()), EDGE)
        with wave.open(str(folder / f"{name}.wav"), "wb") as file:
            file.setparams((1, 1, voices.FLITE_RATE, 0, "NONE", ""))
            file.writeframes((samples.round() + 128).astype(np.uint8).tobytes())
        texts[f"{name}.wav"] = {"voice": voice, "text": text}
    (folder / "texts.json").write_text(json.dumps(texts, indent=1) + "\n")


if __name__ == "__main__":
    main()
