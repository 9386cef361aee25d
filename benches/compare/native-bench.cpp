// A test of compare.py with a build of llama.cpp for this CPU: prints its tokens per second as JSON.
//
// usage: native-bench MODEL COUNT STEP DEPTH THREADS      COUNT tokens, STEP per pass, after DEPTH that are not timed
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "llama.h"

static void fail(const std::string & what) {
    fprintf(stderr, "%s\n", what.c_str());
    exit(1);
}

int main(int argc, char ** argv) {
    if (argc != 6) fail("usage: native-bench MODEL COUNT STEP DEPTH THREADS");
    const int count = atoi(argv[2]), step = atoi(argv[3]), depth = atoi(argv[4]), threads = atoi(argv[5]);
    const int batch = 512;
    llama_backend_init();
    llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    llama_model * model = llama_model_load_from_file(argv[1], model_params);
    if (!model) fail(std::string(argv[1]) + " cannot be loaded");
    llama_context_params params = llama_context_default_params();
    params.n_ctx = depth + count;
    params.n_batch = params.n_ubatch = batch;
    params.n_threads = params.n_threads_batch = threads;
    llama_context * context = llama_init_from_model(model, params);
    if (!context) fail("no context of that length");

    std::mt19937 random(1);
    std::vector<llama_token> tokens(depth + count);
    for (auto & token : tokens) token = random() % llama_vocab_n_tokens(llama_model_get_vocab(model));
    const auto run = [&](int first, int last, int by) {
        for (int at = first; at < last; at += by) {
            const int n = std::min(by, last - at);
            if (llama_decode(context, llama_batch_get_one(&tokens[at], n))) fail("llama_decode failed");
        }
        llama_synchronize(context);
    };
    run(0, depth, batch);
    double seconds = 0;
    for (int turn = 0; turn < 2; turn++) { // the first one warms up
        llama_memory_seq_rm(llama_get_memory(context), 0, depth, -1);
        const auto begun = std::chrono::steady_clock::now();
        run(depth, depth + count, step);
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    }
    printf("[{\"test\": \"\", \"tokens_per_second\": %.3f}]\n", count / seconds);
}
