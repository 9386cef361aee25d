"""Write src/grids/tables.rs: the codebooks of the IQ formats, from the PyPI package `gguf`.

    pip install gguf==0.19.0 numpy==2.4.6
    python3 crates/quant/tests/make_grids.py

An entry has 8 values of 2 bits, or 4 values of 3 bits, the first in the lowest bits; a number
among these bits is the index of a level of the format (`grid_map` in gguf/quants.py).
"""

from pathlib import Path

import numpy as np
from gguf import quants

OUT = Path(__file__).parent.parent / "src" / "grids" / "tables.rs"

HEADER = """//! The codebooks of the IQ formats, packed: 8 indices of 2 bits or 4 of 3 bits for an entry, the
//! first in the lowest bits. Written by `tests/make_grids.py`.
//!
//! The numbers are those of `ggml-common.h` (llama.cpp) and `gguf/quants.py`: MIT licence,
//! Copyright (c) 2023-2026 The ggml authors.
"""


def main() -> None:
    text = HEADER
    for name in ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S"]:
        cls = getattr(quants, name)
        cls.init_grid()
        grid = cls.grid.reshape(cls.grid_shape)
        index = np.searchsorted(np.array(cls.grid_map), grid)
        assert (np.array(cls.grid_map)[index] == grid).all()
        bits = 16 // grid.shape[1] if grid.shape[1] == 8 else 3
        packed = (index << (bits * np.arange(grid.shape[1]))).sum(axis=1)
        rust = name.removesuffix("_S") if name == "IQ1_S" else name
        text += f"\npub(super) const {rust}: [u16; {len(packed)}] = [\n"
        for row in np.split(packed, range(12, len(packed), 12)):
            text += "    " + ", ".join(f"0x{entry:04x}" for entry in row) + ",\n"
        text += "];\n"
    OUT.write_text(text)


if __name__ == "__main__":
    main()
