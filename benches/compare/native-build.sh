#!/bin/bash
# Build llama.cpp for this CPU and native-bench, for `compare.py --program`.
#
# usage: native-build.sh SOURCES FOLDER     SOURCES: vendor/llama.cpp of the unpacked sdist of llama-cpp-python 0.3.36
# needs: CMake, a C++ compiler with OpenMP
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,5s/^# \?//p' "$0"; exit 2; }
here=$(realpath "$(dirname "$0")")
sources=$(realpath "$1")
mkdir -p "$2"
to=$(realpath "$2")
cmake -S "$sources" -B "$to/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON \
    -DLLAMA_CURL=OFF -DLLAMA_BUILD_{TESTS,EXAMPLES,TOOLS,SERVER}=OFF
cmake --build "$to/build" --target llama -j "$(nproc)"
c++ -w -O2 -std=c++17 "$here/native-bench.cpp" -I"$sources/include" -I"$sources/ggml/include" \
    "$to/build/src/libllama.a" "$to/build/ggml/src/"libggml{,-cpu,-base}.a -fopenmp -ldl -o "$to/native-bench"
