/* What the examples share: errors end the program. */
#ifndef EXAMPLE_COMMON_H
#define EXAMPLE_COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pelton.h"

/* Ends the program if a call has failed. */
static inline void check(pelton_status status, pelton_error *error)
{
    if (status == PELTON_OK) {
        return;
    }
    fprintf(stderr, "error %d: %s\n", (int)status, error ? pelton_error_text(error, NULL) : "");
    pelton_error_free(error);
    exit(1);
}

/* Opens an engine on a device such as "cpu"; NULL chooses one. */
static inline pelton_engine *open_engine(const char *device)
{
    pelton_error *error = NULL;
    pelton_options *options = NULL;
    pelton_engine *engine = NULL;
    check(pelton_options_new(&options, &error), error);
    if (device != NULL) {
        check(pelton_options_set(options, PELTON_LIT("device"), device, strlen(device), &error), error);
    }
    check(pelton_engine_open(options, &engine, &error), error);
    pelton_options_free(options);
    return engine;
}

/* Loads a model; the path "-" is the one within the library. */
static inline pelton_model *load_model(pelton_engine *engine, const char *path, const pelton_options *options)
{
    pelton_error *error = NULL;
    pelton_model *model = NULL;
    size_t length = strcmp(path, "-") == 0 ? 0 : strlen(path);
    check(pelton_model_load(engine, path, length, options, &model, &error), error);
    return model;
}

/* The exit code: a program that has closed all its handles has succeeded. */
static inline int leaves_nothing(void)
{
    if (pelton_live_handles() != 0) {
        fprintf(stderr, "%llu handles were not closed\n", (unsigned long long)pelton_live_handles());
        return 1;
    }
    return 0;
}

#endif
