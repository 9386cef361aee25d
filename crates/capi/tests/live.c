/* Live transcription: live MODEL. Audio from one thread while another reads, wrong calls, and early ends. */
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
#define SECOND 16000
#define SECONDS 3

static float tones[SECONDS * SECOND];
static volatile unsigned wakes;

static void wake(void *user_data)
{
    (void)user_data;
    wakes++;
}

/* Adds all audio in small blocks, and ends it. */
static void *speaks(void *transcription)
{
    for (size_t at = 0; at < SECONDS * SECOND; at += SECOND / 10) {
        EXPECT(pelton_transcription_push(transcription, tones + at, SECOND / 10, NULL) == PELTON_OK);
    }
    EXPECT(pelton_transcription_finish(transcription, NULL) == PELTON_OK);
    return NULL;
}

static pelton_transcription *start(pelton_model *model, pelton_options *options)
{
    pelton_transcription *transcription = NULL;
    EXPECT(pelton_transcribe_live(model, options, &transcription, NULL) == PELTON_OK);
    return transcription;
}

static pelton_text *text_of(pelton_transcription *transcription, const char *name)
{
    pelton_text *text = NULL;
    EXPECT(pelton_transcription_text(transcription, name, strlen(name), &text, NULL) == PELTON_OK);
    return text;
}

/* Reads to the end; the words are the text. */
static void reads(pelton_transcription *transcription)
{
    pelton_segment word = {.size = sizeof word};
    pelton_next next;
    char all[4096] = "";
    size_t length = 0;
    double last = 0;
    unsigned count = 0;
    while ((next = pelton_transcription_next(transcription, -1, &word, NULL)) == PELTON_NEXT_ITEM) {
        EXPECT(word.index == count++ && word.start <= word.end && word.end >= last);
        EXPECT(length + word.text_length < sizeof all && word.text[word.text_length] == '\0');
        memcpy(all + length, word.text, word.text_length);
        length += word.text_length;
        last = word.end;
    }
    EXPECT(next == PELTON_NEXT_END && count > 0);
    pelton_text *text = text_of(transcription, "text");
    EXPECT(strcmp(pelton_text_data(text, NULL), all) == 0);
    pelton_text_free(text);
    text = text_of(transcription, "pending");
    EXPECT(strcmp(pelton_text_data(text, NULL), "") == 0);
    pelton_text_free(text);
}

int main(int argc, char **argv)
{
    pelton_options *options = NULL, *wrong = NULL;
    pelton_engine *engine = NULL;
    pelton_model *model = NULL;
    pelton_transcription *transcription = NULL, *other = NULL;
    pelton_text *text = NULL;
    pelton_error *error = NULL;
    pelton_segment word = {.size = sizeof word};
    pthread_t thread;
    union {
        uint32_t bits;
        float value;
    } no_number = {0x7fc00000};

    EXPECT(argc == 2);
    for (int i = 0; i < SECONDS * SECOND; i++) {
        tones[i] = (float)(i * (i / 1600 * 37 % 101 + 3) * 8 % 16384 - 8192) / 32768.0f;
    }
    EXPECT(pelton_options_new(&options, NULL) == PELTON_OK);
    EXPECT(pelton_options_set(options, PELTON_LIT("device"), PELTON_LIT("cpu"), NULL) == PELTON_OK);
    EXPECT(pelton_engine_open(options, &engine, NULL) == PELTON_OK);
    EXPECT(pelton_model_load(engine, argv[1], strlen(argv[1]), NULL, &model, NULL) == PELTON_OK);
    pelton_options_free(options);
    EXPECT(pelton_options_new(&options, NULL) == PELTON_OK);
    EXPECT(pelton_options_set_number(options, PELTON_LIT("temperature"), 0, NULL) == PELTON_OK);

    /* options that need audio that is complete, and one that needs live audio */
    EXPECT(pelton_options_new(&wrong, NULL) == PELTON_OK);
    EXPECT(pelton_options_set_number(wrong, PELTON_LIT("voices"), 1, NULL) == PELTON_OK);
    EXPECT(pelton_transcribe_live(model, wrong, &transcription, &error) == PELTON_INVALID);
    EXPECT(strstr(pelton_error_text(error, NULL), "voices") != NULL);
    pelton_error_free(error);
    EXPECT(pelton_options_set_number(options, PELTON_LIT("step"), 1, NULL) == PELTON_OK);
    EXPECT(pelton_transcribe_samples(model, tones, SECOND, options, &transcription, NULL) == PELTON_INVALID);

    /* one thread speaks and this one reads */
    transcription = start(model, options);
    EXPECT(pelton_transcription_on_ready(transcription, wake, NULL, NULL) == PELTON_OK);
    EXPECT(pelton_transcription_text(transcription, PELTON_LIT("text"), &text, NULL) == PELTON_INVALID);
    text = text_of(transcription, "pending");
    pelton_text_free(text);
    EXPECT(pelton_transcription_push(transcription, &no_number.value, 1, NULL) == PELTON_INVALID);
    pthread_create(&thread, NULL, speaks, transcription);
    reads(transcription);
    pthread_join(thread, NULL);
    EXPECT(wakes > 1);
    EXPECT(pelton_transcription_push(transcription, tones, SECOND, NULL) == PELTON_INVALID);
    EXPECT(pelton_transcription_finish(transcription, NULL) == PELTON_OK);
    EXPECT(pelton_transcription_close(transcription) == PELTON_OK);
    EXPECT(pelton_transcription_push(transcription, tones, SECOND, NULL) == PELTON_CLOSED);
    EXPECT(pelton_transcription_finish(transcription, NULL) == PELTON_CLOSED);

    /* two of them share the model */
    transcription = start(model, options);
    other = start(model, options);
    pthread_create(&thread, NULL, speaks, other);
    speaks(transcription);
    reads(other);
    reads(transcription);
    pthread_join(thread, NULL);
    EXPECT(pelton_transcription_close(transcription) == PELTON_OK);

    /* one whose audio nobody ends is cancelled, and one that computes is closed */
    transcription = start(model, options);
    EXPECT(pelton_transcription_cancel(transcription, NULL) == PELTON_OK);
    EXPECT(pelton_transcription_next(transcription, -1, &word, &error) == PELTON_NEXT_ERROR);
    EXPECT(pelton_error_code(error) == PELTON_CANCELLED);
    pelton_error_free(error);
    EXPECT(pelton_transcription_close(transcription) == PELTON_OK);
    transcription = start(model, options);
    EXPECT(pelton_transcription_push(transcription, tones, SECONDS * SECOND, NULL) == PELTON_OK);
    EXPECT(pelton_transcription_close(transcription) == PELTON_OK);

    /* audio that is complete takes no more */
    pelton_options_free(options);
    EXPECT(pelton_transcribe_samples(model, tones, 1, NULL, &transcription, NULL) == PELTON_OK);
    EXPECT(pelton_transcription_push(transcription, tones, SECOND, NULL) == PELTON_INVALID);
    EXPECT(pelton_transcription_finish(transcription, NULL) == PELTON_INVALID);
    EXPECT(pelton_transcription_close(transcription) == PELTON_OK);

    /* the model within the library knows no times of words */
    pelton_model_close(model);
    EXPECT(pelton_options_new(&options, NULL) == PELTON_OK);
    EXPECT(pelton_options_set_number(options, PELTON_LIT("speech"), 1, NULL) == PELTON_OK);
    EXPECT(pelton_model_load(engine, NULL, 0, options, &model, NULL) == PELTON_OK);
    transcription = start(model, NULL);
    EXPECT(pelton_transcription_push(transcription, tones, SECOND, NULL) == PELTON_OK);
    EXPECT(pelton_transcription_next(transcription, -1, &word, &error) == PELTON_NEXT_ERROR);
    EXPECT(pelton_error_code(error) == PELTON_UNSUPPORTED);
    pelton_error_free(error);
    EXPECT(pelton_transcription_close(transcription) == PELTON_OK);
    EXPECT(pelton_transcription_close(other) == PELTON_OK);
    pelton_options_free(options);
    pelton_options_free(wrong);
    pelton_model_close(model);
    pelton_engine_close(engine);
    EXPECT(pelton_live_handles() == 0);
    return 0;
}
