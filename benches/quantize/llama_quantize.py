"""Quantize a GGUF file with llama.cpp's library, by the function that its program llama-quantize calls.

usage: llama_quantize.py LLAMA_BIN SDIST IN OUT TYPE THREADS [IMATRIX.gguf]
Prints a JSON object: seconds and CPU seconds of the call.
"""

import ctypes
import json
import os
import resource
import sys
import time

import gguf
import numpy as np

library, sdist, source, out, kind, threads, *file = sys.argv[1:]
os.environ["LLAMA_CPP_LIB_PATH"] = library
sys.path.insert(0, sdist)
import llama_cpp  # noqa: E402

TYPES = {
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q2_k": 10, "q3_k_s": 11, "q3_k_m": 12,
    "q3_k_l": 13, "q4_k_s": 14, "q4_k_m": 15, "q5_k_s": 16, "q5_k_m": 17, "q6_k": 18, "q2_k_s": 21, "iq4_nl": 25,
    "iq4_xs": 30, "bf16": 32,
}


class Importance(ctypes.Structure):
    """llama_model_imatrix_data; a list of them ends with one without a name."""

    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.POINTER(ctypes.c_float)), ("size", ctypes.c_size_t)]


def importance(path):
    """The means of a file, as llama-quantize computes them."""
    tensors = {t.name: np.asarray(t.data, np.float32) for t in gguf.GGUFReader(path).tensors}
    found = []
    for name, sums in tensors.items():
        if name.endswith(".in_sum2"):
            counts = tensors[name.replace(".in_sum2", ".counts")].reshape(-1, 1)
            sums = sums.reshape(len(counts), -1)
            means = np.where(counts > 0, sums / np.maximum(counts, 1), 1).astype(np.float32)
            found.append((name.removesuffix(".in_sum2"), np.ascontiguousarray(means.reshape(-1))))
    return found


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
llama_cpp.llama_log_set(silent, None)
options = llama_cpp.llama_model_quantize_default_params()
options.nthread, options.ftype = int(threads), TYPES[kind]
if file:
    values = importance(file[0])
    entries = (Importance * (len(values) + 1))()
    for entry, (name, means) in zip(entries, values):
        entry.name, entry.size = name.encode(), means.size
        entry.data = means.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    options.imatrix = ctypes.cast(entries, dict(options._fields_)["imatrix"])
begin, used = time.monotonic(), cpu_seconds()
failed = llama_cpp.llama_model_quantize(source.encode(), out.encode(), ctypes.byref(options))
figures = {"seconds": round(time.monotonic() - begin, 2), "cpu_seconds": round(cpu_seconds() - used, 2)}
if failed:
    sys.exit("llama_model_quantize refuses")
print(json.dumps(figures))
