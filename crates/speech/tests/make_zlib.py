"""Writes fixtures/zlib.txt: the lengths of zlib streams of generated texts (see src/compression/tests.rs)."""

import pathlib
import zlib

MASK = (1 << 64) - 1


def text(case):
    state = (case * 0x9E3779B97F4A7C15 + 1) & MASK

    def below(n):
        nonlocal state
        state ^= (state << 13) & MASK
        state ^= state >> 7
        state ^= (state << 17) & MASK
        return state % n

    length = below([40, 400, 4000, 32_000][case % 4])
    kind = below(5)
    letters = 2 + below(200)
    out = bytearray()
    while len(out) < length:
        if kind == 0:
            out.append(below(letters))
        elif kind == 1:
            a = below(letters)
            out.append(a * below(letters) // letters + 32)
        elif kind == 2:
            start = below(len(out) + 1)
            out += out[start : start + below(30)]
            out.append(below(letters))
        elif kind == 3:
            word = below(letters)
            out += f" word{word * word}".encode()
        else:
            out += b"all work and no play "[: 1 + below(22)]
    return bytes(out[:length])


lengths = [len(zlib.compress(text(case))) for case in range(600)]
path = pathlib.Path(__file__).parent / "fixtures" / "zlib.txt"
path.write_text("\n".join(map(str, lengths)) + "\n")
