/* The words of audio while it comes: 16-bit samples of one channel at 16,000 Hz from standard input.
 *
 * live MODEL [DEVICE], of a model of Whisper, as in: arecord -t raw -f S16_LE -r 16000 | live ggml-base.bin */
#include "common.h"

/* a tenth of a second */
#define BLOCK 1600

/* Prints the words that have come; with a negative timeout all up to the end. */
static void print_words(pelton_transcription *transcription, int64_t timeout_ms)
{
    pelton_error *error = NULL;
    pelton_segment word = {.size = sizeof word};
    pelton_next next;
    while ((next = pelton_transcription_next(transcription, timeout_ms, &word, &error)) == PELTON_NEXT_ITEM) {
        printf("%.2f %.2f%s\n", word.start, word.end, word.text);
        fflush(stdout);
    }
    if (next == PELTON_NEXT_ERROR) {
        check(pelton_error_code(error), error);
    }
}

int main(int argc, char **argv)
{
    pelton_error *error = NULL;
    pelton_options *options = NULL;
    pelton_transcription *transcription = NULL;
    int16_t block[BLOCK];
    float samples[BLOCK];
    size_t count;
    if (argc < 2) {
        fprintf(stderr, "usage: live MODEL [DEVICE] <AUDIO\n");
        return 2;
    }
    pelton_engine *engine = open_engine(argc > 2 ? argv[2] : NULL);
    pelton_model *model = load_model(engine, argv[1], NULL);
    check(pelton_options_new(&options, &error), error);
    check(pelton_options_set_number(options, PELTON_LIT("temperature"), 0, &error), error);

    check(pelton_transcribe_live(model, options, &transcription, &error), error);
    while ((count = fread(block, sizeof *block, BLOCK, stdin)) > 0) {
        for (size_t i = 0; i < count; i++) {
            samples[i] = block[i] / 32768.0f;
        }
        check(pelton_transcription_push(transcription, samples, count, &error), error);
        print_words(transcription, 0);
    }
    check(pelton_transcription_finish(transcription, &error), error);
    print_words(transcription, -1);

    pelton_transcription_close(transcription);
    pelton_model_close(model);
    pelton_options_free(options);
    pelton_engine_close(engine);
    return leaves_nothing();
}
