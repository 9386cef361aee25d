"""Synthetic voices: eSpeak NG and Flite of the system, through their shared libraries.

The libraries are loaded, not shipped.  Debian has them as libespeak-ng1, espeak-ng-data and
libflite1.  A library lives once in a process, so processes synthesize in parallel.
"""

import ctypes
import dataclasses
import functools
import os

import numpy as np

ACCENTS = """
en en-us en-us-nyc en-029 en-gb-x-rp en-gb-x-gbclan en-gb-x-gbcwmd
""".split()
HELD_OUT_ACCENT = "en-gb-scotland"
VARIANTS = """
Alex Alicia Annie Denis Diogo Gene Gene2 Henrique Jacky Lee Marco Mario Michael Mike Nguyen
RicishayMax RicishayMax2 RicishayMax3 adam anika antonio aunty belinda boris caleb david ed edward
edward2 f1 f2 f4 f5 grandma grandpa iven iven2 iven3 iven4 john klatt klatt2 klatt4 klatt5 klatt6 m1
m2 m3 m4 m6 m7 m8 marcelo max michel miguel norbert pablo paul pedro quincy rob robert sandro shelby
steph steph2 steph3 travis
""".split()
HELD_OUT_VARIANTS = "f3 m5 klatt3 Andrea Andy Hugo benjamin linda victor zac".split()
FLITE = "awb kal16 rms".split()
HELD_OUT_FLITE = "slt"
ESPEAK_RATE = 22050
FLITE_RATE = 16000


@dataclasses.dataclass(frozen=True)
class Voice:
    """A voice and its manner: words a minute, pitch and its range for eSpeak, stretch for Flite."""

    engine: str
    name: str
    speed: float
    pitch: int = 50
    range: int = 50

    @property
    def rate(self):
        return ESPEAK_RATE if self.engine == "espeak" else FLITE_RATE

    def speak(self, text):
        """Samples (int16) of a text without the silence around it."""
        engine = espeak() if self.engine == "espeak" else flite()
        return trimmed(engine.speak(self, text), self.rate)


def espeak_voice(rng, accent, variant):
    return Voice(
        "espeak",
        f"{accent}+{variant}",
        rng.randint(120, 230),
        rng.randint(20, 80),
        rng.randint(25, 80),
    )


def draw(rng, kind):
    """A voice of a kind: "espeak" or "flite" for training, "variant", "accent" or "slt" for tests."""
    if kind == "flite":
        return Voice("flite", rng.choice(FLITE), rng.uniform(0.85, 1.35))
    if kind == "slt":
        return Voice("flite", HELD_OUT_FLITE, rng.uniform(0.9, 1.15))
    accent = HELD_OUT_ACCENT if kind == "accent" else rng.choice(ACCENTS)
    variant = rng.choice(HELD_OUT_VARIANTS if kind == "variant" else VARIANTS)
    return espeak_voice(rng, accent, variant)


def trimmed(samples, rate):
    """Cuts what is quieter than a hundredth of the peak at both ends, in steps of 5 ms."""
    step = rate // 200
    frames = np.abs(samples[: len(samples) // step * step].reshape(-1, step)).max(1)
    if len(frames) == 0 or frames.max() < 500:
        return samples[:0]
    loud = np.flatnonzero(frames > frames.max() * 0.01)
    return samples[loud[0] * step : (loud[-1] + 1) * step]


class Espeak:
    SYNCHRONOUS, MILLISECONDS, UTF8, BY_CHARACTER = 2, 400, 1, 1
    SPEED, PITCH, RANGE = 1, 3, 4

    def __init__(self):
        self.library = ctypes.CDLL("libespeak-ng.so.1")
        data = os.environ.get("ESPEAK_DATA_PATH")
        rate = self.library.espeak_Initialize(
            self.SYNCHRONOUS, self.MILLISECONDS, data and data.encode(), 0
        )
        if rate != ESPEAK_RATE:
            raise OSError(f"eSpeak NG speaks at {rate} Hz instead of {ESPEAK_RATE}")
        self.blocks = []
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
        )
        self.callback = kind(self.receive)
        self.library.espeak_SetSynthCallback(self.callback)
        self.name = None

    def receive(self, samples, count, _events):
        if count > 0:
            self.blocks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    def speak(self, voice, text):
        if voice.name != self.name:
            if self.library.espeak_SetVoiceByName(voice.name.encode()) != 0:
                raise OSError(f"eSpeak NG has no voice {voice.name}")
            self.name = voice.name
        for parameter, value in [
            (self.SPEED, voice.speed),
            (self.PITCH, voice.pitch),
            (self.RANGE, voice.range),
        ]:
            self.library.espeak_SetParameter(parameter, int(value), 0)
        data = text.encode()
        self.blocks = []
        self.library.espeak_Synth(
            data, ctypes.c_size_t(len(data) + 1), 0, self.BY_CHARACTER, 0, self.UTF8, None, None
        )
        self.library.espeak_Synchronize()
        return np.concatenate(self.blocks or [np.zeros(0, np.int16)])


class Wave(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_char_p),
        ("rate", ctypes.c_int),
        ("count", ctypes.c_int),
        ("channels", ctypes.c_int),
        ("samples", ctypes.POINTER(ctypes.c_short)),
    ]


class FliteVoice(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("features", ctypes.c_void_p)]


class Flite:
    def __init__(self):
        self.library = ctypes.CDLL("libflite.so.1", ctypes.RTLD_GLOBAL)
        self.library.flite_init()
        self.library.flite_text_to_wave.restype = ctypes.POINTER(Wave)
        self.library.feat_set_float.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_float]
        self.voices = {}

    def voice(self, name):
        if name not in self.voices:
            for dependency in ["usenglish", "cmulex"]:
                ctypes.CDLL(f"libflite_{dependency}.so.1", ctypes.RTLD_GLOBAL)
            library = ctypes.CDLL(f"libflite_cmu_us_{name}.so.1")
            register = getattr(library, f"register_cmu_us_{name}")
            register.restype = ctypes.POINTER(FliteVoice)
            self.voices[name] = register(None)
        return self.voices[name]

    def speak(self, voice, text):
        handle = self.voice(voice.name)
        self.library.feat_set_float(handle.contents.features, b"duration_stretch", voice.speed)
        wave = self.library.flite_text_to_wave(text.encode(), handle)
        if wave.contents.rate != FLITE_RATE:
            raise OSError(f"Flite speaks at {wave.contents.rate} Hz instead of {FLITE_RATE}")
        samples = np.ctypeslib.as_array(wave.contents.samples, (wave.contents.count,)).copy()
        self.library.delete_wave(wave)
        return samples


espeak = functools.cache(Espeak)
flite = functools.cache(Flite)
