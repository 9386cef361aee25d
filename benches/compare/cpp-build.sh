#!/bin/bash
# Build llama.cpp for this CPU or for AVX2 alone, or ik_llama.cpp for AVX2 alone, and FOLDER/KIND-bench for
# `compare.py --program`. Or build llama.cpp's towers for AVX2 or for CUDA, and FOLDER/mtmd-bench.
#
# usage: cpp-build.sh KIND SOURCES FOLDER
#   KIND     native, avx2: llama.cpp; SOURCES is vendor/llama.cpp of the unpacked sdist of llama-cpp-python 0.3.36
#            mtmd-avx2, mtmd-cuda: the same sources
#            ik: ik_llama.cpp; SOURCES is a checkout of https://github.com/ikawrakow/ik_llama.cpp
# needs: CMake, a C++ compiler
set -euo pipefail
case "${1-} $#" in
    "native 3") flags=(-DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_BUILD_TOOLS=OFF) define=() ;;
    "avx2 3") flags=(-DGGML_NATIVE=OFF -DGGML_{AVX,AVX2,FMA,F16C}=ON -DLLAMA_CURL=OFF -DLLAMA_BUILD_TOOLS=OFF) define=() ;;
    "mtmd-avx2 3") flags=(-DGGML_NATIVE=OFF -DGGML_{AVX,AVX2,FMA,F16C}=ON) ;;
    "mtmd-cuda 3") flags=(-DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90) ;;
    "ik 3") flags=(-DGGML_NATIVE=OFF -DGGML_{AVX,AVX2,FMA,F16C}=ON -DGGML_IQK_FA_ALL_QUANTS=OFF) define=(-DIK_LLAMA) ;;
    *) sed -n '2,9s/^# \?//p' "$0"; exit 2 ;;
esac
target=llama towers=()
if [[ $1 = mtmd-* ]]; then
    target=mtmd
    towers=(-DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_SUBPROCESS=OFF -DLLAMA_BUILD_{TOOLS,COMMON,APP}=OFF -DLLAMA_BUILD_MTMD=ON)
fi
here=$(realpath "$(dirname "$0")")
sources=$(realpath "$2")
mkdir -p "$3"
to=$(realpath "$3")
cmake -S "$sources" -B "$to/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DLLAMA_BUILD_{TESTS,EXAMPLES,SERVER}=OFF "${flags[@]}" "${towers[@]}"
cmake --build "$to/build" --target "$target" -j "$(nproc)"
libraries=("$to"/build/{bin,src,ggml/src})
if [ "$target" = mtmd ]; then
    c++ -O2 -std=c++17 "$here/mtmd-bench.cpp" -I"$sources/include" -I"$sources/ggml/include" -I"$sources/tools/mtmd" \
        "${libraries[@]/#/-L}" "${libraries[@]/#/-Wl,-rpath,}" -lmtmd -lllama -lggml -lggml-base -o "$to/mtmd-bench"
    exit
fi
c++ -O2 -std=c++17 "${define[@]}" "$here/cpp-bench.cpp" -I"$sources/include" -I"$sources/ggml/include" \
    "${libraries[@]/#/-L}" "${libraries[@]/#/-Wl,-rpath,}" -lllama -lggml -o "$to/$1-bench"
