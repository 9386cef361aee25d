/* Documents by their relevance for a question.
 *
 * rerank MODEL [DEVICE], of a reranker such as bge-reranker. */
#include "common.h"

#define DOCUMENTS 2

int main(int argc, char **argv)
{
    const pelton_string documents[DOCUMENTS] = {
        {PELTON_LIT("It scatters short waves.")},
        {PELTON_LIT("Fish live in it.")},
    };
    pelton_error *error = NULL;
    float scores[DOCUMENTS];
    size_t count = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: rerank MODEL [DEVICE]\n");
        return 2;
    }
    pelton_engine *engine = open_engine(argc > 2 ? argv[2] : NULL);
    pelton_model *model = load_model(engine, argv[1], NULL);

    check(pelton_rerank(model, PELTON_LIT("Why is the sky blue?"), documents, DOCUMENTS, NULL, scores, DOCUMENTS,
                        &count, &error),
          error);
    for (size_t i = 0; i < count; i++) {
        printf("%.6f %s\n", scores[i], documents[i].data);
    }
    pelton_model_close(model);
    pelton_engine_close(engine);
    return leaves_nothing();
}
