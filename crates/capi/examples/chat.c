/* A conversation of two turns, printed as it comes.
 *
 * chat [MODEL [DEVICE]]; the model "-" is the one within the library. */
#include "common.h"

#define QUESTIONS 2

/* Adds a message, and the comma before it, to a list in JSON. */
static void add(char *messages, size_t capacity, const char *message, size_t length)
{
    size_t used = strlen(messages);
    const char *comma = used > 1 ? "," : "";
    if (used + length + 3 > capacity) {
        fprintf(stderr, "the conversation is too long\n");
        exit(1);
    }
    snprintf(messages + used, capacity - used, "%s%.*s", comma, (int)length, message);
}

int main(int argc, char **argv)
{
    static const char *const questions[QUESTIONS] = {"What is 2 plus 3?", "What is 4 plus 4?"};
    static char messages[1 << 16] = "[";
    pelton_error *error = NULL;
    pelton_engine *engine = open_engine(argc > 2 ? argv[2] : NULL);
    pelton_model *model = load_model(engine, argc > 1 ? argv[1] : "-", NULL);
    pelton_request *request = NULL;

    check(pelton_request_new(&request, &error), error);
    check(pelton_request_set_number(request, PELTON_LIT("temperature"), 0, &error), error);
    check(pelton_request_set_number(request, PELTON_LIT("max_tokens"), 64, &error), error);
    for (int i = 0; i < QUESTIONS; i++) {
        char question[256];
        pelton_stream *stream = NULL;
        pelton_text *answer = NULL;
        pelton_token token = {.size = sizeof token};
        pelton_next next;
        size_t length = 0;

        printf("> %s\n", questions[i]);
        snprintf(question, sizeof question, "{\"role\": \"user\", \"content\": \"%s\"}", questions[i]);
        add(messages, sizeof messages, question, strlen(question));
        strcat(messages, "]");
        check(pelton_request_set_messages(request, messages, strlen(messages), &error), error);
        check(pelton_request_start(request, model, &stream, &error), error);
        while ((next = pelton_stream_next(stream, -1, &token, &error)) == PELTON_NEXT_ITEM) {
            fwrite(token.text, 1, token.text_length, stdout);
            fflush(stdout);
        }
        if (next == PELTON_NEXT_ERROR) {
            check(pelton_error_code(error), error);
        }
        printf("\n");

        /* the answer belongs in the next prompt */
        check(pelton_stream_text(stream, PELTON_LIT("message"), &answer, &error), error);
        const char *text = pelton_text_data(answer, &length);
        messages[strlen(messages) - 1] = '\0';
        add(messages, sizeof messages - 1, text, length);
        pelton_text_free(answer);
        pelton_stream_close(stream);
    }
    pelton_request_free(request);
    pelton_model_close(model);
    pelton_engine_close(engine);
    return leaves_nothing();
}
