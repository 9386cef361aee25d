"""Pack a model's weights in Q8_0 into a few files, and unpack them.

    python pack.py HF_DIR PARTS       # PARTS/weights.00, .01, ... of up to 15 MiB
    python pack.py --unpack PARTS HF_DIR

Matrices are stored as float16 scales and 8-bit codes, others as float32. Unpacked weights are
float32 with the values of Q8_0; their conversion to GGUF in Q8_0 gives the same codes again.
"""

import io
import json
import pathlib
import sys

import numpy as np
from safetensors.numpy import load_file, save_file

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "models/tiny"))

PART = 15 << 20
BLOCK = 32


def pack(hf_dir, parts):
    import torch
    from evaluate import q8_0

    index, body = [], io.BytesIO()
    for name, values in sorted(load_file(hf_dir / "model.safetensors").items()):
        index.append((name, values.shape))
        values = values.astype(np.float32)
        if values.ndim > 1:
            codes, scales = q8_0(torch.from_numpy(values))
            body.write(scales.numpy().tobytes() + codes.to(torch.int8).numpy().tobytes())
        else:
            body.write(values.tobytes())
    head = json.dumps(index).encode()
    data = len(head).to_bytes(8, "little") + head + body.getvalue()
    for at in range(0, len(data), PART):
        (parts / f"weights.{at // PART:02}").write_bytes(data[at : at + PART])


def unpack(parts, hf_dir):
    data = b"".join(path.read_bytes() for path in sorted(parts.glob("weights.[0-9][0-9]")))
    at = 8 + int.from_bytes(data[:8], "little")
    tensors = {}

    def take(count, kind):
        nonlocal at
        values = np.frombuffer(data, kind, count, at)
        at += values.nbytes
        return values.astype(np.float32)

    for name, shape in json.loads(data[8:at]):
        size = int(np.prod(shape))
        if len(shape) > 1:
            scales = take(size // BLOCK, "<f2")
            values = take(size, "i1").reshape(-1, BLOCK) * scales[:, None]
        else:
            values = take(size, "<f4")
        tensors[name] = values.reshape(shape)
    save_file(tensors, hf_dir / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    if sys.argv[1] == "--unpack":
        unpack(*map(pathlib.Path, sys.argv[2:4]))
    else:
        pack(*map(pathlib.Path, sys.argv[1:3]))
