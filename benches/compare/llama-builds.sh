#!/bin/bash
# Build llama.cpp twice from the sources in the sdist of PyPI llama-cpp-python: with kernels for AVX2 alone, and with
# those for all instructions of this CPU. Only the library of the CPU's kernels differs.
#
# usage: llama-builds.sh SDIST FOLDER     (FOLDER/env: Python with the package, FOLDER/avx2 and FOLDER/native: libraries)
# needs: Python, a C++ compiler; pip fetches CMake and Ninja
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,7s/^# \?//p' "$0"; exit 2; }
sdist=$(realpath "$1")
mkdir -p "$2" && cd "$2"
python3 -m venv env
env/bin/pip install -q cmake ninja scikit-build-core numpy typing_extensions jinja2 diskcache gguf matplotlib
CMAKE_ARGS="-DLLAMA_BUILD=OFF" env/bin/pip install -q --no-deps "$sdist"
PATH=$PWD/env/bin:$PATH
build() { # NAME FLAG...: configures, builds and keeps the libraries
    local name=$1
    shift
    cmake -S "$sdist/vendor/llama.cpp" -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
        -DLLAMA_BUILD_{TESTS,EXAMPLES,TOOLS,SERVER,COMMON}=OFF "$@"
    cmake --build build --target llama
    mkdir -p "$name"
    cp -a build/bin/*.so* "$name"
    rm build/bin/*.so* # which the copies would load in place of their own, as a last resort
}
build avx2 -DGGML_NATIVE=OFF -DGGML_{SSE42,AVX,AVX2,FMA,F16C,BMI2}=ON
build native -DGGML_NATIVE=ON -DGGML_{SSE42,AVX,AVX2,FMA,F16C,BMI2}=OFF
