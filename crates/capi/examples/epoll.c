/* Two answers at the same time in one loop of epoll, as a server would read them. Linux alone.
 *
 * epoll [MODEL [DEVICE]]; the model "-" is the one within the library. */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common.h"

#define STREAMS 2

struct reader {
    pelton_stream *stream;
    /* the callback of the library writes to it, and the loop waits for it */
    int wake;
    char text[4096];
    size_t length;
};

/* Runs on a thread of the library: it wakes the loop and does nothing else. */
static void wake(void *user_data)
{
    uint64_t one = 1;
    const struct reader *reader = user_data;
    if (write(reader->wake, &one, sizeof one) < 0) {
        abort();
    }
}

/* Reads all tokens that are there; returns whether the answer goes on. */
static bool drain(struct reader *reader)
{
    pelton_error *error = NULL;
    pelton_token token = {.size = sizeof token};
    for (;;) {
        switch (pelton_stream_next(reader->stream, 0, &token, &error)) {
        case PELTON_NEXT_ITEM:
            if (reader->length + token.text_length < sizeof reader->text) {
                memcpy(reader->text + reader->length, token.text, token.text_length);
                reader->length += token.text_length;
            }
            break;
        case PELTON_NEXT_TIMEOUT:
            return true;
        case PELTON_NEXT_END:
            return false;
        default:
            check(pelton_error_code(error), error);
        }
    }
}

int main(int argc, char **argv)
{
    static const char *const prompts[STREAMS] = {"The sky is", "Once upon a time"};
    static struct reader readers[STREAMS];
    pelton_error *error = NULL;
    pelton_options *load = NULL;
    pelton_request *request = NULL;
    pelton_engine *engine = open_engine(argc > 2 ? argv[2] : NULL);

    check(pelton_options_new(&load, &error), error);
    check(pelton_options_set_number(load, PELTON_LIT("max_concurrent"), STREAMS, &error), error);
    pelton_model *model = load_model(engine, argc > 1 ? argv[1] : "-", load);
    check(pelton_request_new(&request, &error), error);
    check(pelton_request_set_number(request, PELTON_LIT("temperature"), 0, &error), error);
    check(pelton_request_set_number(request, PELTON_LIT("max_tokens"), 16, &error), error);

    int loop = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < STREAMS; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &readers[i]};
        check(pelton_request_set_prompt(request, prompts[i], strlen(prompts[i]), &error), error);
        check(pelton_request_start(request, model, &readers[i].stream, &error), error);
        readers[i].wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (readers[i].wake < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, readers[i].wake, &event) < 0) {
            return 1;
        }
        check(pelton_stream_on_ready(readers[i].stream, wake, &readers[i], &error), error);
    }
    for (int running = STREAMS; running > 0;) {
        struct epoll_event events[STREAMS];
        int count = epoll_wait(loop, events, STREAMS, -1);
        for (int i = 0; i < count; i++) {
            struct reader *reader = events[i].data.ptr;
            uint64_t wakes;
            if (reader->stream == NULL || read(reader->wake, &wakes, sizeof wakes) < 0) {
                continue;
            }
            if (!drain(reader)) {
                /* the callback does not run any more when the stream is closed */
                pelton_stream_close(reader->stream);
                reader->stream = NULL;
                close(reader->wake);
                running--;
            }
        }
    }
    for (int i = 0; i < STREAMS; i++) {
        printf("%s%.*s\n", prompts[i], (int)readers[i].length, readers[i].text);
    }
    close(loop);
    pelton_request_free(request);
    pelton_model_close(model);
    pelton_options_free(load);
    pelton_engine_close(engine);
    return leaves_nothing();
}
