// The times of llama.cpp for a prompt that is one picture of random pixels, as JSON: milliseconds of the preparation, of
// the tower, of the prompt's passes, and of all together. `pelton bench --picture-sizes` measures the same of Pelton.
// cpp-build.sh builds it.
//
// usage: mtmd-bench MODEL MMPROJ WIDTH HEIGHT RUNS THREADS LAYERS     LAYERS on the GPU: 0 or 999
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "llama.h"
#include "mtmd-helper.h"
#include "mtmd.h"

static void fail(const std::string & what) {
    fprintf(stderr, "%s\n", what.c_str());
    exit(1);
}

static double now() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char ** argv) {
    if (argc != 8) fail("usage: mtmd-bench MODEL MMPROJ WIDTH HEIGHT RUNS THREADS LAYERS");
    const int width = atoi(argv[3]), height = atoi(argv[4]), runs = atoi(argv[5]), threads = atoi(argv[6]);
    const int layers = atoi(argv[7]), batch = 2048, most = 8192;
    const auto quiet = [](ggml_log_level level, const char * text, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
    };
    llama_log_set(quiet, nullptr);
    mtmd_log_set(quiet, nullptr);
    llama_backend_init();
    llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = layers;
    llama_model * model = llama_model_load_from_file(argv[1], model_params);
    if (!model) fail(std::string(argv[1]) + " cannot be loaded");
    llama_context_params params = llama_context_default_params();
    params.n_ctx = most;
    // a picture whose rows see each other must fit in one batch
    params.n_batch = params.n_ubatch = batch;
    params.n_threads = params.n_threads_batch = threads;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    llama_context * context = llama_init_from_model(model, params);
    if (!context) fail("no context of that length");
    mtmd_context_params vision_params = mtmd_context_params_default();
    vision_params.use_gpu = layers > 0;
    vision_params.n_threads = threads;
    vision_params.print_timings = false;
    vision_params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    // the limits of the models' own files
    vision_params.image_max_tokens = 4096;
    mtmd_context * vision = mtmd_init_from_file(argv[2], model, vision_params);
    if (!vision) fail(std::string(argv[2]) + " cannot be loaded");

    std::mt19937 random(1);
    printf("[");
    for (int run = -1; run < runs; run++) {
        std::vector<unsigned char> pixels(size_t(3) * width * height);
        for (auto & pixel : pixels) pixel = random();
        mtmd_bitmap * bitmap = mtmd_bitmap_init(width, height, pixels.data());
        const mtmd_bitmap * bitmaps[] = {bitmap};
        llama_memory_clear(llama_get_memory(context), true);
        const double begun = now();
        mtmd_input_text text{};
        const std::string marker = mtmd_default_marker();
        text.text = marker.c_str();
        text.text_len = marker.size();
        text.add_special = false;
        text.parse_special = true;
        mtmd_input_chunks * chunks = mtmd_input_chunks_init();
        if (mtmd_tokenize(vision, chunks, &text, bitmaps, 1)) fail("mtmd_tokenize failed");
        const double prepared = now() - begun;
        double tower = 0, prompt = 0;
        size_t tokens = 0;
        llama_pos at = 0;
        const size_t count = mtmd_input_chunks_size(chunks);
        for (size_t i = 0; i < count; i++) {
            const mtmd_input_chunk * chunk = mtmd_input_chunks_get(chunks, i);
            tokens += mtmd_input_chunk_get_n_tokens(chunk);
            const double start = now();
            if (mtmd_input_chunk_get_type(chunk) == MTMD_INPUT_CHUNK_TYPE_TEXT) {
                const bool last = i + 1 == count;
                if (mtmd_helper_eval_chunk_single(vision, context, chunk, at, 0, batch, last, &at)) fail("no text");
                llama_synchronize(context);
                prompt += now() - start;
                continue;
            }
            if (mtmd_encode_chunk(vision, chunk)) fail("mtmd_encode_chunk failed");
            tower += now() - start;
            const double seen = now();
            float * embeddings = mtmd_get_output_embd(vision);
            if (mtmd_helper_decode_image_chunk(vision, context, chunk, embeddings, at, 0, batch, &at, nullptr, nullptr)) fail("no picture");
            llama_synchronize(context);
            prompt += now() - seen;
        }
        const double all = now() - begun;
        // the first run warms up
        if (run >= 0) {
            printf("%s{\"tokens\": %zu, \"prepared_ms\": %.3f, \"tower_ms\": %.3f, \"prompt_ms\": %.3f, \"first_token_ms\": %.3f}",
                run ? ", " : "", tokens, prepared, tower, prompt, all);
        }
        mtmd_input_chunks_free(chunks);
        mtmd_bitmap_free(bitmap);
    }
    printf("]\n");
}
