#!/bin/bash
# Build llama.cpp for this CPU, or ik_llama.cpp for AVX2 alone, and FOLDER/KIND-bench for `compare.py --program`.
#
# usage: cpp-build.sh KIND SOURCES FOLDER
#   KIND     native: llama.cpp; SOURCES is vendor/llama.cpp of the unpacked sdist of llama-cpp-python 0.3.36
#            ik: ik_llama.cpp; SOURCES is a checkout of https://github.com/ikawrakow/ik_llama.cpp
# needs: CMake, a C++ compiler
set -euo pipefail
case "${1-} $#" in
    "native 3") flags=(-DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_BUILD_TOOLS=OFF) define=() ;;
    "ik 3") flags=(-DGGML_NATIVE=OFF -DGGML_{AVX,AVX2,FMA,F16C}=ON -DGGML_IQK_FA_ALL_QUANTS=OFF) define=(-DIK_LLAMA) ;;
    *) sed -n '2,7s/^# \?//p' "$0"; exit 2 ;;
esac
here=$(realpath "$(dirname "$0")")
sources=$(realpath "$2")
mkdir -p "$3"
to=$(realpath "$3")
cmake -S "$sources" -B "$to/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DLLAMA_BUILD_{TESTS,EXAMPLES,SERVER}=OFF "${flags[@]}"
cmake --build "$to/build" --target llama -j "$(nproc)"
libraries=("$to"/build/{bin,src,ggml/src})
c++ -O2 -std=c++17 "${define[@]}" "$here/cpp-bench.cpp" -I"$sources/include" -I"$sources/ggml/include" \
    "${libraries[@]/#/-L}" "${libraries[@]/#/-Wl,-rpath,}" -lllama -lggml -o "$to/$1-bench"
