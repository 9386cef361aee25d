#!/bin/bash
# Build ik_llama.cpp's library for AVX2 alone and ik-bench, for `compare.py --program`.
#
# usage: ik-build.sh SOURCES FOLDER     SOURCES: a checkout of https://github.com/ikawrakow/ik_llama.cpp
# needs: CMake, a C++ compiler
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,5s/^# \?//p' "$0"; exit 2; }
here=$(realpath "$(dirname "$0")")
sources=$(realpath "$1")
mkdir -p "$2"
to=$(realpath "$2")
cmake -S "$sources" -B "$to/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=OFF \
    -DGGML_{AVX,AVX2,FMA,F16C}=ON -DGGML_IQK_FA_ALL_QUANTS=OFF -DLLAMA_BUILD_{TESTS,EXAMPLES,SERVER}=OFF
cmake --build "$to/build" --target llama -j "$(nproc)"
c++ -O2 -std=c++17 "$here/ik-bench.cpp" -I"$sources/include" -I"$sources/ggml/include" \
    -L"$to/build/src" -L"$to/build/ggml/src" -lllama -lggml \
    -Wl,-rpath,"$to/build/src:$to/build/ggml/src" -o "$to/ik-bench"
