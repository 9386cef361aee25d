"""Convert the matrices of a model's layers to other formats with llama.cpp's own encoders.

    python benches/effort/requantize.py LIBGGML MODEL.gguf OUT-{}.gguf TYPE...

LIBGGML is libggml-base of a build of llama.cpp, TYPE is Q4_0, Q2_K and so on, which replaces the {} of
OUT. Embeddings, the output matrix and norms stay as they are, as with effort. Needs the package gguf.
"""

import ctypes
import sys

import gguf
import numpy as np


def encoder(path):
    library = ctypes.CDLL(path)
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    floats = np.ctypeslib.ndpointer(np.float32, flags="C")
    whole = ctypes.c_int64
    library.ggml_quantize_chunk.argtypes = [
        ctypes.c_int, floats, ctypes.c_void_p, whole, whole, whole, ctypes.c_void_p,
    ]

    def encode(values, kind):
        block, size = gguf.GGML_QUANT_SIZES[kind]
        rows, columns = values.shape
        out = np.empty((rows, columns // block * size), np.uint8)
        values = np.ascontiguousarray(values, np.float32)
        got = library.ggml_quantize_chunk(int(kind), values, out.ctypes.data, 0, rows, columns, None)
        if got != out.nbytes:
            raise SystemExit(f"{kind.name}: {got} bytes, expected {out.nbytes}")
        return out

    return encode


def convert(encode, source, out, kind):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(out, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        listed = field.types[0] == gguf.GGUFValueType.ARRAY
        of = field.types[-1] if listed else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=of)
    for tensor in reader.tensors:
        if tensor.name.startswith("blk.") and len(tensor.shape) == 2:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            writer.add_tensor(tensor.name, encode(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


library, source, pattern, *kinds = sys.argv[1:]
for name in kinds:
    convert(encoder(library), source, pattern.format(name), gguf.GGMLQuantizationType[name])
