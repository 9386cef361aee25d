/* Texts by their similarity to a first one.
 *
 * embedding MODEL [DEVICE], of an embedding model such as bge-small. */
#include "common.h"

#define TEXTS 3

int main(int argc, char **argv)
{
    const pelton_string texts[TEXTS] = {
        {PELTON_LIT("The sky is blue.")},
        {PELTON_LIT("The sea is blue.")},
        {PELTON_LIT("He repaired the engine.")},
    };
    pelton_error *error = NULL;
    size_t count = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: embedding MODEL [DEVICE]\n");
        return 2;
    }
    pelton_engine *engine = open_engine(argc > 2 ? argv[2] : NULL);
    pelton_model *model = load_model(engine, argv[1], NULL);

    /* the size, then the values: each vector has the length 1, so that products are cosines */
    check(pelton_embed(model, texts, TEXTS, NULL, NULL, 0, &count, &error), error);
    float *values = malloc(count * sizeof *values);
    if (values == NULL) {
        return 1;
    }
    check(pelton_embed(model, texts, TEXTS, NULL, values, count, &count, &error), error);
    size_t width = count / TEXTS;
    printf("%zu values each\n", width);
    for (size_t i = 1; i < TEXTS; i++) {
        float cosine = 0;
        for (size_t j = 0; j < width; j++) {
            cosine += values[j] * values[i * width + j];
        }
        printf("%.4f %s\n", cosine, texts[i].data);
    }
    free(values);
    pelton_model_close(model);
    pelton_engine_close(engine);
    return leaves_nothing();
}
