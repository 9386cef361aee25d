/* The answer to a question about a picture.
 *
 * picture FILE [QUESTION [MODEL [DEVICE]]] */
#include "common.h"

/* As many bytes as a picture may have. */
#define CAPACITY 20000000

int main(int argc, char **argv)
{
    static unsigned char file[CAPACITY];
    static char messages[1 << 12];
    const char *question = argc > 2 ? argv[2] : "Describe the picture.";
    pelton_error *error = NULL;
    pelton_request *request = NULL;
    pelton_stream *stream = NULL;
    pelton_token token = {.size = sizeof token};
    pelton_next next;

    FILE *input = argc > 1 ? fopen(argv[1], "rb") : NULL;
    if (input == NULL) {
        fprintf(stderr, "picture FILE [QUESTION [MODEL [DEVICE]]]\n");
        return 2;
    }
    size_t length = fread(file, 1, sizeof file, input);
    fclose(input);

    pelton_engine *engine = open_engine(argc > 4 ? argv[4] : NULL);
    pelton_model *model = load_model(engine, argc > 3 ? argv[3] : "built-in-vision", NULL);
    snprintf(messages, sizeof messages, "[{\"role\": \"user\", \"content\": \"%s\"}]", question);
    check(pelton_request_new(&request, &error), error);
    check(pelton_request_set_number(request, PELTON_LIT("temperature"), 0, &error), error);
    check(pelton_request_set_messages(request, messages, strlen(messages), &error), error);
    check(pelton_request_add_image(request, file, length, &error), error);
    check(pelton_request_start(request, model, &stream, &error), error);
    while ((next = pelton_stream_next(stream, -1, &token, &error)) == PELTON_NEXT_ITEM) {
        fwrite(token.text, 1, token.text_length, stdout);
    }
    if (next == PELTON_NEXT_ERROR) {
        check(pelton_error_code(error), error);
    }
    printf("\n");
    pelton_stream_close(stream);
    pelton_request_free(request);
    pelton_model_close(model);
    pelton_engine_close(engine);
    return leaves_nothing();
}
