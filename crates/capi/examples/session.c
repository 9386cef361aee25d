/* One sequence run by hand: logits of a prompt, then a chain of the likeliest tokens.
 *
 * session [MODEL [DEVICE]]; the model "-" is the one within the library. */
#include "common.h"

#define CHAIN 16

int main(int argc, char **argv)
{
    pelton_error *error = NULL;
    pelton_session *session = NULL;
    pelton_decoder *decoder = NULL;
    uint32_t prompt[256], tokens[CHAIN];
    size_t count = 0, vocabulary = 0, position = 0;
    pelton_engine *engine = open_engine(argc > 2 ? argv[2] : NULL);
    pelton_model *model = load_model(engine, argc > 1 ? argv[1] : "-", NULL);

    check(pelton_tokenize(model, PELTON_LIT("Once upon a time"), PELTON_TOKENIZE_PROMPT, prompt, 256, &count,
                          &error),
          error);
    check(pelton_decoder_new(model, 0, &decoder, &error), error);
    /* the model becomes the session */
    check(pelton_session_new(model, &session, &error), error);
    check(pelton_session_feed(session, prompt, count, &error), error);

    check(pelton_session_logits(session, NULL, 0, &vocabulary, &error), error);
    float *logits = malloc(vocabulary * sizeof *logits);
    if (logits == NULL) {
        return 1;
    }
    check(pelton_session_logits(session, logits, vocabulary, &vocabulary, &error), error);
    uint32_t best = 0;
    for (uint32_t id = 1; id < vocabulary; id++) {
        best = logits[id] > logits[best] ? id : best;
    }
    free(logits);
    check(pelton_session_chain(session, best, tokens, CHAIN, &count, &error), error);
    check(pelton_session_position(session, &position, &error), error);

    printf("%u", best);
    for (size_t i = 0; i < count; i++) {
        printf(" %u", tokens[i]);
    }
    printf("\n%zu positions\n", position);
    for (size_t i = 0; i <= count; i++) {
        pelton_text *text = NULL;
        check(pelton_decoder_push(decoder, i == 0 ? best : tokens[i - 1], &text, &error), error);
        printf("%s", pelton_text_data(text, NULL));
        pelton_text_free(text);
    }
    printf("\n");
    pelton_decoder_free(decoder);
    pelton_session_close(session);
    pelton_engine_close(engine);
    return leaves_nothing();
}
