// A test of compare.py with llama.cpp, or with ik_llama.cpp if IK_LLAMA is defined: prints its tokens per second as JSON.
// cpp-build.sh builds it.
//
// usage: KIND-bench MODEL COUNT STEP DEPTH THREADS      COUNT tokens, STEP per pass, after DEPTH that are not timed
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

#ifdef IK_LLAMA
static void prepare(llama_model_params & params) {
    params.repack_tensors = true;
    params.use_mmap = false; // repacked weights are no longer those of the file
}
static int vocabulary(const llama_model * model) { return llama_n_vocab(model); }
static llama_batch batch_of(llama_token * tokens, int count, int at) { return llama_batch_get_one(tokens, count, at, 0); }
static void forget(llama_context * context, int from) { llama_kv_cache_seq_rm(context, 0, from, -1); }
#else
static void prepare(llama_model_params &) {}
static int vocabulary(const llama_model * model) { return llama_vocab_n_tokens(llama_model_get_vocab(model)); }
static llama_batch batch_of(llama_token * tokens, int count, int) { return llama_batch_get_one(tokens, count); }
static void forget(llama_context * context, int from) {
    llama_memory_seq_rm(llama_get_memory(context), 0, from, -1);
}
#endif

int main(int argc, char ** argv) {
    if (argc != 6) fail("usage: KIND-bench MODEL COUNT STEP DEPTH THREADS");
    const int count = atoi(argv[2]), step = atoi(argv[3]), depth = atoi(argv[4]), threads = atoi(argv[5]);
    const int batch = 512;
    llama_backend_init();
    llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    prepare(model_params);
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
    for (auto & token : tokens) token = random() % vocabulary(model);
    const auto run = [&](int first, int last, int by) {
        for (int at = first; at < last; at += by) {
            const int n = std::min(by, last - at);
            if (llama_decode(context, batch_of(&tokens[at], n, at))) fail("llama_decode failed");
        }
        llama_synchronize(context);
    };
    run(0, depth, batch);
    double seconds = 0;
    for (int turn = 0; turn < 2; turn++) { // the first one warms up
        forget(context, depth);
        const auto begun = std::chrono::steady_clock::now();
        run(depth, depth + count, step);
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    }
    printf("[{\"test\": \"\", \"tokens_per_second\": %.3f}]\n", count / seconds);
}
