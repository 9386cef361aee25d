"""Tasks for lm-evaluation-harness without downloads, in the characters that the tiny models know."""

import json

DOCUMENTS = [
    {"question": "Is the sea wet?", "choices": [" yes", " no"], "label": 0},
    {"question": "Is ice hot?", "choices": [" yes", " no"], "label": 1},
    {"question": "2+3=", "choices": ["4", "5", "6"], "label": 1},
    {"question": "The cat sat on the ", "choices": ["mat.", "moon.", "man in the rain."], "label": 0},
    # longer than the context: the beginning is left out
    {"question": "another day on the hill, then " * 12, "choices": [" yes", " no"], "label": 0},
]
TEXTS = [
    "The man in the garden sang another song.",
    "one",
    # several windows
    "Then the rain ran into the river, and on and on. " * 8,
]
# tokens that a prediction sees
MAX_LENGTH = 200


def write(folder):
    """The data of the tasks as files, and the tasks."""
    choices, texts = folder / "choices.jsonl", folder / "texts.jsonl"
    choices.write_text("".join(json.dumps(one) + "\n" for one in DOCUMENTS))
    texts.write_text("".join(json.dumps({"text": one}) + "\n" for one in TEXTS))

    def task(name, file, **rest):
        data = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(file)}}}
        return {"task": name, "test_split": "test", "num_fewshot": 0} | data | rest

    return [
        task(
            "tiny_choices",
            choices,
            output_type="multiple_choice",
            doc_to_text="{{question}}",
            doc_to_target="label",
            doc_to_choice="choices",
            target_delimiter="",
            metric_list=[{"metric": "acc"}, {"metric": "acc_norm"}],
        ),
        task(
            "tiny_perplexity",
            texts,
            output_type="loglikelihood_rolling",
            doc_to_text="",
            doc_to_target="{{text}}",
            metric_list=[{"metric": "word_perplexity"}, {"metric": "bits_per_byte"}],
        ),
        task(
            "tiny_generation",
            choices,
            output_type="generate_until",
            doc_to_text="{{question}}",
            doc_to_target="{{choices[label]}}",
            generation_kwargs={"until": ["q"], "max_gen_toks": 12, "do_sample": False},
            metric_list=[{"metric": "exact_match"}],
        ),
    ]


def evaluate(model, folder):
    """The results of all tasks: metrics, and each response of the model."""
    import lm_eval

    found = lm_eval.simple_evaluate(model=model, tasks=write(folder), bootstrap_iters=0)
    results = {}
    for name, samples in found["samples"].items():
        metrics = {
            key: value
            for key, value in found["results"][name].items()
            if isinstance(value, float) and "stderr" not in key
        }
        samples = sorted(samples, key=lambda sample: sample["doc_id"])
        responses = [[plain(answer) for answer in sample["resps"]] for sample in samples]
        results[name] = {"metrics": metrics, "responses": responses}
    return results


def plain(answer):
    """A response in the types of JSON."""
    if isinstance(answer, (list, tuple)):
        return [plain(part) for part in answer]
    return answer if isinstance(answer, (str, bool)) else float(answer)
