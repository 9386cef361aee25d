// Prints the errors of ggml's encoders on generated values, for errors.rs: a line of type, distribution, the relative
// error without importance, and the relative error by importance with it.
//
//     git archive of https://github.com/ggml-org/llama.cpp, or vendor/llama.cpp of the PyPI source package
//     llama_cpp_python 0.3.36; G is its ggml folder, and V a folder with a ggml-version.h that defines GGML_VERSION
//     and GGML_COMMIT as any text.
//     gcc -O2 -ffp-contract=off -IV -IG/include -IG/src -c G/src/ggml.c G/src/ggml-quants.c
//     g++ -O2 -IV -IG/include -IG/src -c G/src/ggml.cpp G/src/ggml-threading.cpp
//     gcc -O2 -ffp-contract=off -IG/include make_errors.c *.o -lm -lstdc++ -lpthread -o errors
//     ./errors > golden/errors.txt
#include "ggml.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 16, COLUMNS = 512, LEN = ROWS * COLUMNS };

static uint64_t state;

static float uniform(void) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (float) (state >> 40) / 16777216.0f;
}

static float bell(void) {
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += uniform() - 0.5f;
    return sum;
}

static const char * NAMES[] = {
    "bell", "tails", "positive", "outliers", "sparse", "offset", "scales",
};

static float value(int distribution, int i) {
    const float x = bell();
    switch (distribution) {
        case 0: return x;
        case 1: return x * x * x;
        case 2: return fabsf(x);
        case 3: return i % 97 == 0 ? 16 * x : x;
        case 4: return uniform() < 0.25f ? x : 0;
        case 5: return x * 0.125f + 0.5f;
        default: return x / (float) (1 << (i / 64 % 8));
    }
}

static double relative(const float * x, const float * y, const float * importance) {
    double error = 0, all = 0;
    for (int i = 0; i < LEN; i++) {
        const double w = importance ? importance[i % COLUMNS] : 1, d = (double) x[i] - y[i];
        error += w * d * d;
        all += w * (double) x[i] * x[i];
    }
    return sqrt(error / all);
}

int main(void) {
    const enum ggml_type types[] = {
        GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q8_0, GGML_TYPE_Q2_K,
        GGML_TYPE_Q3_K, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS,
        GGML_TYPE_MXFP4,
    };
    static float x[LEN], y[LEN], importance[COLUMNS];
    static char blocks[4 * LEN];
    for (int d = 0; d < 7; d++) {
        state = 7 + d;
        for (int i = 0; i < LEN; i++) x[i] = value(d, i);
        for (int i = 0; i < COLUMNS; i++) {
            const float u = uniform();
            importance[i] = 0.0625f + 16 * u * u * u * u;
        }
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            double errors[2];
            for (int weighted = 0; weighted < 2; weighted++) {
                ggml_quantize_chunk(types[t], x, blocks, 0, ROWS, COLUMNS, weighted ? importance : NULL);
                ggml_get_type_traits(types[t])->to_float(blocks, y, LEN);
                errors[weighted] = relative(x, y, weighted ? importance : NULL);
            }
            char name[16];
            strcpy(name, ggml_type_name(types[t]));
            for (char * c = name; *c; c++) if (*c >= 'a' && *c <= 'z') *c -= 32;
            printf("%s %s %.7g %.7g\n", name, NAMES[d], errors[0], errors[1]);
        }
    }
    return 0;
}
