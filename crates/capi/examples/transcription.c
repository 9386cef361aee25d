/* The text of a file of audio, segment by segment.
 *
 * transcription AUDIO [MODEL [DEVICE]]; the model "-" is the toy within the library. */
#include "common.h"

int main(int argc, char **argv)
{
    pelton_error *error = NULL;
    pelton_options *load = NULL;
    pelton_transcription *transcription = NULL;
    pelton_segment segment = {.size = sizeof segment};
    pelton_text *text = NULL;
    pelton_next next;
    if (argc < 2) {
        fprintf(stderr, "usage: transcription AUDIO [MODEL [DEVICE]]\n");
        return 2;
    }
    pelton_engine *engine = open_engine(argc > 3 ? argv[3] : NULL);
    check(pelton_options_new(&load, &error), error);
    check(pelton_options_set_number(load, PELTON_LIT("speech"), 1, &error), error);
    pelton_model *model = load_model(engine, argc > 2 ? argv[2] : "-", load);

    check(pelton_transcribe_file(model, argv[1], strlen(argv[1]), NULL, &transcription, &error), error);
    while ((next = pelton_transcription_next(transcription, -1, &segment, &error)) == PELTON_NEXT_ITEM) {
        printf("%.2f to %.2f:%s\n", segment.start, segment.end, segment.text);
    }
    if (next == PELTON_NEXT_ERROR) {
        check(pelton_error_code(error), error);
    }
    check(pelton_transcription_text(transcription, PELTON_LIT("srt"), &text, &error), error);
    printf("%s", pelton_text_data(text, NULL));

    pelton_text_free(text);
    pelton_transcription_close(transcription);
    pelton_model_close(model);
    pelton_options_free(load);
    pelton_engine_close(engine);
    return leaves_nothing();
}
