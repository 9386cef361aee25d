#!/bin/bash
# Build llama.cpp's library, llama-quantize and llama-perplexity from the sources in the sdist of PyPI llama-cpp-python,
# for the instructions of this CPU.
#
# usage: build.sh SDIST FOLDER     (SDIST: the unpacked sdist; FOLDER/build/bin: the libraries and programs)
# needs: Python, a C++ compiler; pip fetches CMake and Ninja
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,7s/^# \?//p' "$0"; exit 2; }
sdist=$(realpath "$1")
mkdir -p "$2" && cd "$2"
python3 -m venv env
env/bin/pip install -q cmake ninja
PATH=$PWD/env/bin:$PATH
# the programs need llama.cpp's common parts; no program here downloads anything
cmake -S "$sdist/vendor/llama.cpp" -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DLLAMA_BUILD_{TESTS,EXAMPLES,SERVER,APP,UI}=OFF -DLLAMA_BUILD_{COMMON,TOOLS}=ON -DLLAMA_OPENSSL=OFF -DGGML_NATIVE=ON
ninja -C build llama llama-quantize llama-perplexity
