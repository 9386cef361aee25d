/* Handles that are closed early, twice, while others need them, and while another thread waits. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pelton.h"

#define EXPECT(condition)                                                                                          \
    do {                                                                                                           \
        if (!(condition)) {                                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                                \
            exit(1);                                                                                               \
        }                                                                                                          \
    } while (0)

static pelton_model *model;
static pelton_stream *watched;
static volatile pelton_status from_callback = PELTON_OK;

/* A callback may not call the library. */
static void calls_the_library(void *user_data)
{
    (void)user_data;
    from_callback = pelton_stream_cancel(watched, NULL);
}

static bool stops(const pelton_token *token, void *user_data)
{
    (void)token;
    return ++*(int *)user_data < 3;
}

/* This one may, because it runs on the calling thread. */
static bool asks(const pelton_token *token, void *user_data)
{
    uint64_t context = 0;
    (void)token;
    *(pelton_status *)user_data = pelton_model_integer(model, PELTON_LIT("context"), &context, NULL);
    return true;
}

static pelton_stream *start(pelton_request *request)
{
    pelton_stream *stream = NULL;
    EXPECT(pelton_request_start(request, model, &stream, NULL) == PELTON_OK);
    return stream;
}

static int tokens_of(pelton_stream *stream)
{
    pelton_token token = {.size = sizeof token};
    pelton_next next;
    int count = 0;
    while ((next = pelton_stream_next(stream, -1, &token, NULL)) == PELTON_NEXT_ITEM) {
        count++;
    }
    EXPECT(next == PELTON_NEXT_END);
    EXPECT(pelton_stream_next(stream, 0, &token, NULL) == PELTON_NEXT_END);
    return count;
}

/* Reads to the end, which another thread makes by closing. */
static void *reads(void *stream)
{
    pelton_token token = {.size = sizeof token};
    pelton_error *error = NULL;
    for (;;) {
        pelton_next next = pelton_stream_next(stream, -1, &token, &error);
        if (next == PELTON_NEXT_ERROR) {
            EXPECT(pelton_error_code(error) == PELTON_CLOSED);
            pelton_error_free(error);
            return NULL;
        }
        if (next == PELTON_NEXT_END) {
            return NULL;
        }
    }
}

int main(void)
{
    pelton_options *options = NULL;
    pelton_engine *engine = NULL;
    pelton_request *request = NULL;
    pelton_model *shared = NULL;
    pelton_session *session = NULL;
    pelton_error *error = NULL;
    pelton_token token = {.size = sizeof token};
    pelton_token small = {.size = 8};
    uint32_t ids[64], one;
    size_t count = 0, needed = 0;

    EXPECT(pelton_options_new(&options, NULL) == PELTON_OK);
    EXPECT(pelton_options_set(options, PELTON_LIT("device"), PELTON_LIT("cpu"), NULL) == PELTON_OK);
    EXPECT(pelton_engine_open(options, &engine, NULL) == PELTON_OK);
    EXPECT(pelton_options_set(options, PELTON_LIT("colour"), PELTON_LIT("red"), NULL) == PELTON_OK);
    EXPECT(pelton_model_load(engine, NULL, 0, options, &model, &error) == PELTON_INVALID);
    /* the options of an engine are none of a load: the first one is named */
    EXPECT(strstr(pelton_error_text(error, NULL), "'device'") != NULL);
    EXPECT(pelton_error_free(error) == PELTON_OK && pelton_error_free(error) == PELTON_CLOSED);
    EXPECT(pelton_model_load(engine, PELTON_LIT("/no/such/file.gguf"), NULL, &model, NULL) == PELTON_NOT_FOUND);
    EXPECT(pelton_model_load(engine, NULL, 0, NULL, &model, &error) == PELTON_OK && error == NULL);
    pelton_options_free(options);

    /* models go on without their engine */
    EXPECT(pelton_engine_close(engine) == PELTON_OK && pelton_engine_close(engine) == PELTON_CLOSED);
    EXPECT(pelton_request_new(&request, NULL) == PELTON_OK);
    EXPECT(pelton_request_start(request, model, &watched, NULL) == PELTON_INVALID);
    EXPECT(pelton_request_set_number(request, PELTON_LIT("max_tokens"), 16, NULL) == PELTON_OK);
    EXPECT(pelton_request_set_number(request, PELTON_LIT("temperature"), -1, NULL) == PELTON_INVALID);
    EXPECT(pelton_request_set_number(request, PELTON_LIT("ignore_eos"), 1, NULL) == PELTON_OK);
    EXPECT(pelton_request_set_prompt(request, PELTON_LIT("Once upon a time"), NULL) == PELTON_OK);
    pelton_stream *stream = start(request);
    EXPECT(pelton_stream_next(stream, 0, &small, NULL) == PELTON_NEXT_ERROR);
    EXPECT(tokens_of(stream) == 16);

    /* sizes first, and buffers that are too small */
    EXPECT(pelton_tokenize(model, PELTON_LIT("Once upon a time"), 0, NULL, 0, &needed, NULL) == PELTON_OK);
    EXPECT(needed > 1);
    EXPECT(pelton_tokenize(model, PELTON_LIT("Once upon a time"), 0, &one, 1, &count, NULL) == PELTON_BUFFER);
    EXPECT(count == needed);
    EXPECT(pelton_tokenize(model, PELTON_LIT("Once upon a time"), 0, ids, 64, &count, NULL) == PELTON_OK);
    EXPECT(count == needed);
    EXPECT(pelton_tokenize(model, "\xff", 1, 0, ids, 64, &count, NULL) == PELTON_INVALID);

    /* a session needs the model alone; until then the handle stays */
    EXPECT(pelton_session_new(model, &session, NULL) == PELTON_INVALID);
    EXPECT(pelton_stream_close(stream) == PELTON_OK && pelton_stream_cancel(stream, NULL) == PELTON_CLOSED);
    EXPECT(pelton_model_share(model, &shared, NULL) == PELTON_OK);
    EXPECT(pelton_session_new(model, &session, NULL) == PELTON_INVALID);
    EXPECT(pelton_model_close(shared) == PELTON_OK);

    /* callbacks */
    watched = start(request);
    EXPECT(pelton_stream_on_ready(watched, calls_the_library, NULL, NULL) == PELTON_OK);
    EXPECT(tokens_of(watched) == 16);
    EXPECT(pelton_stream_on_ready(watched, NULL, NULL, NULL) == PELTON_OK);
    EXPECT(from_callback == PELTON_CALLBACK);
    pelton_stream_close(watched);
    int calls = 0;
    EXPECT(pelton_generate(model, request, stops, &calls, NULL) == PELTON_OK && calls == 3);
    pelton_status asked = PELTON_NULL;
    EXPECT(pelton_generate(model, request, asks, &asked, NULL) == PELTON_OK && asked == PELTON_OK);

    /* a thread that waits while another one cancels or closes */
    EXPECT(pelton_request_set_number(request, PELTON_LIT("max_tokens"), 2000, NULL) == PELTON_OK);
    for (int round = 0; round < 4; round++) {
        pthread_t thread;
        stream = start(request);
        EXPECT(pelton_stream_next(stream, -1, &token, NULL) == PELTON_NEXT_ITEM);
        pthread_create(&thread, NULL, reads, stream);
        if (round % 2 == 0) {
            EXPECT(pelton_stream_cancel(stream, NULL) == PELTON_OK);
            pthread_join(thread, NULL);
            EXPECT(pelton_stream_close(stream) == PELTON_OK);
        } else {
            EXPECT(pelton_stream_close(stream) == PELTON_OK);
            pthread_join(thread, NULL);
        }
    }

    /* a stream goes on without its request and its model's handle */
    EXPECT(pelton_request_set_number(request, PELTON_LIT("max_tokens"), 16, NULL) == PELTON_OK);
    stream = start(request);
    EXPECT(pelton_request_free(request) == PELTON_OK && pelton_request_free(request) == PELTON_CLOSED);
    EXPECT(pelton_model_close(model) == PELTON_OK && pelton_model_close(model) == PELTON_CLOSED);
    EXPECT(tokens_of(stream) == 16);
    EXPECT(pelton_stream_close(stream) == PELTON_OK);
    EXPECT(pelton_live_handles() == 0);
    return 0;
}
