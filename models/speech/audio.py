"""Windows of audio from a store of utterances, and Whisper's mel spectrogram, on the GPU."""

import math

import torch
from torch.nn import functional

RATE = 16000
HOP = 160
TAPS = 400
NOISES, NOISE_SECONDS = 12, 40
BABBLE = 5
TAIL = RATE // 2


def mel_filters(mels=80):
    """Slaney's mel scale and area norm, as in librosa."""

    def hertz(mel):
        return torch.where(
            mel < 15, mel * 200 / 3, 1000 * torch.exp((mel - 15) * math.log(6.4) / 27)
        )

    top = 15 + math.log(8) * 27 / math.log(6.4)
    edges = hertz(torch.linspace(0, top, mels + 2, dtype=torch.float64))
    bins = torch.linspace(0, RATE / 2, TAPS // 2 + 1, dtype=torch.float64)
    rise = (bins[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - bins[None]) / (edges[2:] - edges[1:-1])[:, None]
    norm = 2 / (edges[2:] - edges[:-2])
    return (torch.minimum(rise, fall).clamp(min=0) * norm[:, None]).float()


class Mel:
    def __init__(self, device):
        self.filters = mel_filters().to(device)
        self.window = torch.hann_window(TAPS, device=device)

    def __call__(self, audio, contents=None):
        """Log-mel [row, 80, frame] of audio [row, sample].

        Frames after `contents` samples of a row are 0, as Whisper pads the last window.
        """
        spectrum = torch.stft(audio, TAPS, HOP, window=self.window, return_complex=True)
        power = spectrum[..., :-1].abs().square()
        log = (self.filters @ power).clamp(min=1e-10).log10()
        mel = (torch.maximum(log, log.amax((1, 2), keepdim=True) - 8) + 4) / 4
        if contents is not None:
            frame = torch.arange(mel.shape[-1], device=mel.device)
            mel = mel * (frame < contents[:, None] // HOP)[:, None]
        return mel


def resampled(samples):
    """22,050 Hz to 16,000 Hz by the spectrum, for a multiple of 441 samples."""
    blocks = len(samples) // 441
    room = -(-blocks // 4096) * 4096  # a length without large prime factors
    spectrum = torch.fft.rfft(samples, room * 441)[: room * 160 + 1]
    return torch.fft.irfft(spectrum, room * 320)[: blocks * 320] * (320 / 441)


def noises(device, generator):
    """Noises of unit power whose power falls with frequency by exponents of 0 (white) to 2."""
    count = NOISE_SECONDS * RATE
    spectrum = torch.fft.rfft(torch.randn(NOISES, count, device=device, generator=generator))
    frequency = torch.arange(spectrum.shape[1], device=device).clamp(min=20 * NOISE_SECONDS)
    exponents = torch.linspace(0, 2, NOISES, device=device)[:, None]
    audio = torch.fft.irfft(spectrum * frequency[None] ** (-exponents / 2), count)
    return audio / audio.square().mean(1, keepdim=True).sqrt()


def speech(store, window, samples):
    """Places utterances of the store, read at their speeds, in windows of silence."""
    device = store.device
    time = torch.arange(samples, device=device)
    starts = window["at"].contiguous()
    slot = torch.searchsorted(starts, time.expand(len(starts), -1).contiguous(), right=True) - 1
    inside = slot >= 0
    slot = slot.clamp(min=0)
    offset = time - starts.gather(1, slot)
    inside &= offset < window["count"].gather(1, slot)
    position = offset * window["speed"].gather(1, slot)
    whole = position.floor()
    part = position - whole
    index = window["source"].gather(1, slot) + whole.long()
    index = torch.where(inside, index, 0)
    left, right = store[index].float(), store[index + 1].float()
    value = (left + (right - left) * part) * (window["gain"].gather(1, slot) / 32768)
    return torch.where(inside, value, 0.0)


def uniform(rows, low, high, device, generator):
    return low + (high - low) * torch.rand(rows, 1, device=device, generator=generator)


def rooms(audio, generator):
    """Reverberation of a decaying noise, and limits and tilt of the spectrum."""
    rows, samples = audio.shape
    device = audio.device

    def draw(low, high):
        return uniform(rows, low, high, device, generator)

    def chosen(share):
        return draw(0, 1) < share

    time = torch.arange(TAIL, device=device)[None] / RATE
    tail = torch.randn(rows, TAIL, device=device, generator=generator)
    tail = tail * torch.exp(-6.9 * time / draw(0.1, 0.6))
    tail = tail / tail.square().sum(1, keepdim=True).sqrt()
    response = tail * 10 ** (draw(-25, -2) / 20) * chosen(0.6)
    response[:, 0] += 1
    size = 1 << (samples + TAIL - 1).bit_length()
    spectrum = torch.fft.rfft(audio, size) * torch.fft.rfft(response, size)
    frequency = torch.linspace(0, RATE / 2, size // 2 + 1, device=device)[None] + 1
    decibels = draw(-6, 6) * torch.log2(frequency / 1000).clamp(-4, 3) / 3
    low = torch.where(chosen(0.4), draw(2500, 7500), 1e9)
    high = torch.where(chosen(0.4), draw(40, 350), 1e-3)
    limits = (1 + (frequency / low) ** 12).rsqrt() * (1 + (high / frequency) ** 6).rsqrt()
    return torch.fft.irfft(spectrum * limits * 10 ** (decibels / 20), size)[:, :samples]


def babble(store, filled, rows, samples, generator):
    """Several utterances of the store at once, of unit power."""
    first = torch.randint(filled, (rows, BABBLE), device=store.device, generator=generator)
    time = torch.arange(samples, device=store.device)
    audio = sum(store[(first[:, i, None] + time) % filled].float() for i in range(BABBLE))
    return audio / audio.square().mean(1, keepdim=True).sqrt().clamp(min=1)


def coloured(pool, rows, samples, generator):
    kind = torch.randint(len(pool), (rows, 1), device=pool.device, generator=generator)
    first = torch.randint(pool.shape[1], (rows, 1), device=pool.device, generator=generator)
    time = torch.arange(samples, device=pool.device)
    return pool[kind, (first + time) % pool.shape[1]]


def noisy(audio, noise, power, decibels):
    """Adds noise of unit power at a ratio to the root mean square `power` of the speech."""
    return audio + noise * power * 10 ** (-decibels / 20)


def masked(mel, generator):
    """SpecAugment: hides two bands and three short times in half of the rows."""
    rows, bands, frames = mel.shape
    device = mel.device
    band = torch.arange(bands, device=device)[None]
    frame = torch.arange(frames, device=device)[None]
    hidden = torch.zeros(rows, bands, frames, dtype=torch.bool, device=device)
    for _ in range(2):
        first = uniform(rows, 0, bands, device, generator)
        hidden |= ((band >= first) & (band < first + uniform(rows, 0, 14, device, generator)))[
            :, :, None
        ]
    for _ in range(3):
        first = uniform(rows, 0, frames, device, generator)
        hidden |= ((frame >= first) & (frame < first + uniform(rows, 0, 22, device, generator)))[
            :, None
        ]
    hidden &= (uniform(rows, 0, 1, device, generator) < 0.5)[:, None]
    return torch.where(hidden, mel.mean((1, 2), keepdim=True), mel)


class Studio:
    """Makes training spectrograms from drawn windows."""

    def __init__(self, device, seed):
        self.generator = torch.Generator(device)
        self.generator.manual_seed(seed)
        self.pool = noises(device, self.generator)
        self.mel = Mel(device)

    def __call__(self, store, filled, window, samples):
        rows, generator, device = len(window["at"]), self.generator, store.device

        def draw(low, high):
            return uniform(rows, low, high, device, generator)

        audio = speech(store, window, samples)
        half = rows // 2
        audio[:half] = rooms(audio[:half], generator)
        kind, share, ratio = draw(0, 1), draw(0, 1), draw(2, 40)
        noise = coloured(self.pool, rows, samples, generator)
        some = slice(1, None, 3)
        talk = babble(store, filled, len(kind[some]), samples, generator)
        # Noise, babble or both.
        part = torch.where(kind[some] < 0.5, 1.0, share[some])
        noise[some] = talk * part.sqrt() + noise[some] * (1 - part).sqrt()
        ratio[some] = ratio[some].clamp(min=7)
        quiet = (kind > 0.8) | window["silent"][:, None]
        audio = noisy(audio, noise, window["power"][:, None] * ~quiet, ratio)
        time = torch.arange(samples, device=device)
        audio = audio * (time < window["content"][:, None]) * 10 ** (draw(-30, 3) / 20)
        contents = torch.where(window["padded"], window["content"], samples)
        mel = masked(self.mel(audio.clamp(-1, 1)), generator)
        frame = torch.arange(mel.shape[-1], device=device)
        return mel * (frame < contents[:, None] // HOP)[:, None]


def pad_or_trim(audio, samples):
    return functional.pad(audio, (0, max(samples - audio.shape[-1], 0)))[..., :samples]
