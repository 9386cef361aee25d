/* Calls of every function with wrong values, then with right ones from two threads. tests/calls.rs replaces
 * the marks by lists that it makes from the header. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pelton.h"

struct handles {
/* HANDLES */
    pelton_model *speech;
};

/* Places for the results of one thread. */
struct places {
/* HANDLES */
    size_t size;
    uint64_t integer;
    double number;
    float floats[8];
    uint32_t ids[8];
    pelton_token token;
    pelton_segment segment;
    pelton_tensor tensor;
};

static struct handles live, ended;
static unsigned checks;
static const float samples[1] = {0};
static const uint32_t prompt[1] = {1};
static const pelton_string strings[1] = {{"x", 1}};

#define EXPECT(condition)                                                                                          \
    do {                                                                                                           \
        checks++;                                                                                                  \
        if (!(condition)) {                                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                                \
            exit(1);                                                                                               \
        }                                                                                                          \
    } while (0)

static bool on_token(const pelton_token *token, void *user_data)
{
    (void)user_data;
    return token->text[token->text_length] == '\0';
}

static void on_ready(void *user_data)
{
    (void)user_data;
}

static void on_log(uint32_t level, const char *text, size_t length, void *user_data)
{
    (void)level, (void)text, (void)length, (void)user_data;
}

/* Closes what a call has made. */
static void tidy(struct places *places)
{
/* TIDY */
    places->token.size = sizeof places->token;
    places->segment.size = sizeof places->segment;
    places->tensor.size = sizeof places->tensor;
}

static void must(pelton_status status, pelton_error *error)
{
    if (status != PELTON_OK) {
        fprintf(stderr, "%s\n", pelton_error_text(error, NULL));
        exit(1);
    }
}

static void open_all(struct handles *all)
{
    pelton_error *error = NULL;
    pelton_options *options = NULL;
    must(pelton_options_new(&options, &error), error);
    must(pelton_options_set(options, PELTON_LIT("device"), PELTON_LIT("cpu"), &error), error);
    must(pelton_engine_open(options, &all->engine, &error), error);
    pelton_options_free(options);

    must(pelton_model_load(all->engine, NULL, 0, NULL, &all->model, &error), error);
    must(pelton_session_new(all->model, &all->session, &error), error);
    must(pelton_model_load(all->engine, NULL, 0, NULL, &all->model, &error), error);
    must(pelton_options_new(&options, &error), error);
    must(pelton_options_set_number(options, PELTON_LIT("speech"), 1, &error), error);
    must(pelton_model_load(all->engine, NULL, 0, options, &all->speech, &error), error);
    pelton_options_free(options);

    must(pelton_options_new(&all->options, &error), error);
    must(pelton_request_new(&all->request, &error), error);
    must(pelton_request_set_prompt(all->request, PELTON_LIT("Once"), &error), error);
    must(pelton_request_set_number(all->request, PELTON_LIT("max_tokens"), 2, &error), error);
    must(pelton_grammar_new(all->model, PELTON_LIT("regex"), PELTON_LIT("[a-z ]+"), &all->grammar, &error), error);
    must(pelton_request_start(all->request, all->model, &all->stream, &error), error);
    must(pelton_decoder_new(all->model, 0, &all->decoder, &error), error);
    must(pelton_model_text(all->model, PELTON_LIT("name"), &all->text, &error), error);
    must(pelton_transcribe_samples(all->speech, samples, 1, NULL, &all->transcription, &error), error);
    if (pelton_request_new(NULL, &all->error) != PELTON_NULL || all->error == NULL) {
        exit(1);
    }
}

static void wrong(struct places *places)
{
/* WRONG */
}

static void *right(void *rounds)
{
    struct places all = {0}, *places = &all;
    tidy(places);
    for (int round = 0; round < *(int *)rounds; round++) {
/* RIGHT */
    }
    return NULL;
}

int main(void)
{
    struct places places = {0};
    pthread_t threads[2];
    int rounds = 4;
    tidy(&places);
    open_all(&ended);
/* ENDED */
    pelton_model_close(ended.speech);
    EXPECT(pelton_live_handles() == 0);
    open_all(&live);
    uint64_t before = pelton_live_handles();
    wrong(&places);
    EXPECT(pelton_live_handles() == before);
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, right, &rounds);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    EXPECT(pelton_live_handles() == before);
/* CLOSES */
    pelton_model_close(live.speech);
    EXPECT(pelton_live_handles() == 0);
    printf("%u checks\n", checks);
    return 0;
}
