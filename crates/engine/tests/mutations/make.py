"""Write what transformers computes where one key of config.json has another value:
NAME.json next to this file, for the directories of tests/fixtures/models.

    pip install torch transformers==5.24.0 gguf sentencepiece
    python crates/engine/tests/mutations/make.py [NAME...]

Each key of the class is changed by itself, also those that the file does not state, and
each parameter of rotary embedding.  A file has a line for each change: the key, its new
value and what transformers does, either "same", "refused" (an error, or tensors that
lack), or the places and values of the results that move most, of the first LENGTH tokens.
The first line is the whole configuration with all of its defaults, which is the same model.

`stand_ins.py` has the models that no class of transformers reads from their directories.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import tempfile
import warnings

import numpy as np
import torch
import transformers
from transformers import PreTrainedConfig

FIXTURES = pathlib.Path(__file__).resolve().parents[4] / "tests/fixtures"
sys.path.insert(0, str(FIXTURES))
from families import Family  # noqa: E402
from families_encoder import Encoder, Reranker, pool  # noqa: E402
from families_hybrid import NemotronH  # noqa: E402
from make_models import FAMILIES  # noqa: E402
from stand_ins import stand_in  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parent
LENGTH = 48
PLACES = 4
SAME = 2e-6
BASE = PreTrainedConfig().to_dict().keys()

# What a key without a value, or with a word, may be.
OTHERS = {
    "activation": ["relu", "silu"],
    "activation_function": ["relu", "gelu", "gelu_new"],
    "attn_logit_softcapping": [2.0, None],
    "classifier_activation": ["relu", "silu", "tanh", "gelu_pytorch_tanh"],
    "classifier_pooling": ["mean", "cls"],
    "clip_qkv": [0.5],
    "expert_selection_fn": ["softmax", "sigmoid"],
    "final_logit_softcapping": [1.5, None],
    "head_dim": [8, 16],
    "mlp_multipliers": [[0.7, 1.2]],
    "ssm_multipliers": [[0.7, 1.2, 0.8, 1.3, 0.9]],
    "mlp_hidden_act": ["relu", "silu"],
    "mamba_hidden_act": ["gelu"],
    "hidden_act": ["relu", "gelu", "gelu_pytorch_tanh", "silu", "relu2"],
    "hidden_activation": ["relu", "gelu", "gelu_pytorch_tanh", "silu"],
    "mamba_d_head": [4, 16],
    "model_type": [],
    "n_group": [2],
    "num_experts_per_tok": [1, 2],
    "position_embedding_type": ["rope", None],
    "shared_expert_combination_strategy": ["sum", "average"],
    "sliding_window": [5, 9, None],
    "time_step_limit": [[0.3, 0.5]],
    "topk_group": [1],
    "topk_method": ["greedy", "group_limited_greedy", "noaux_tc"],
    "scoring_func": ["softmax", "sigmoid"],
    "use_bidirectional_attention": [True, "all", "vision"],
}

# Classes without a model of their own, which read the weights of another one.
MINISTRAL = dict(architectures=["MinistralForCausalLM"], model_type="ministral", sliding_window=9)
CLASSES = {
    "mistral-window": [
        (transformers.MinistralForCausalLM, MINISTRAL | dict(layer_types=types))
        for types in (
            ["full_attention", "sliding_attention"],
            ["sliding_attention", "full_attention"],
            ["sliding_attention", "sliding_attention"],
            ["full_attention", "full_attention"],
        )
    ],
}

ROPES = [
    dict(rope_type="linear", factor=3.0),
    dict(rope_type="dynamic", factor=3.0),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, truncate=False),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16,
         attention_factor=0.7),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.7,
         mscale_all_dim=1.1),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, mscale=1.0,
         mscale_all_dim=1.0),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16,
         mscale_all_dim=1.0),
    dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
         original_max_position_embeddings=32),
]


def changes(value, key):
    """Other values of a key."""
    if key in OTHERS:
        return OTHERS[key]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value * 2 or 1, value // 2 if value > 1 else value + 2]
    if isinstance(value, float):
        return [value * 1.5 + 0.25, value * 0.5]
    if value is None:
        return [2, True]
    if isinstance(value, list) and not value:
        return [[0]]
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        kinds = sorted(set(value) | {"full_attention", "sliding_attention"})
        return [[kind] * len(value) for kind in kinds] + [value[::-1]]
    if isinstance(value, list) and all(isinstance(item, int) for item in value):
        return [value[::-1], [1 - item if item in (0, 1) else item + 1 for item in value]]
    return []


def rope_changes(parameters):
    if any(isinstance(inner, dict) for inner in parameters.values()):
        for kind, inner in parameters.items():
            for other in rope_changes(inner) if isinstance(inner, dict) else ():
                yield parameters | {kind: other}
        return
    for key, value in parameters.items():
        if key not in ("rope_type", "type"):
            for other in changes(value, key):
                yield parameters | {key: other}
    base = {k: parameters[k] for k in ("rope_theta", "partial_rotary_factor") if k in parameters}
    for kind in ROPES:
        yield base | kind
    yield base | dict(rope_type="default", partial_rotary_factor=0.5)


def all_changes(whole, stated):
    """Pairs of keys and new values, of all keys with their defaults."""
    for key, value in (whole | stated).items():
        if key in BASE or key in ("text_config", "vision_config", "audio_config"):
            continue
        if key in ("quantization", "quantization_config"):
            for inner, old in value.items():
                yield from ((key, value | {inner: other}) for other in changes(old, inner))
            continue
        if key in ("rope_parameters", "rope_scaling") and value:
            for other in rope_changes(value):
                yield key, other
            continue
        for other in changes(value, key):
            if other != value or type(other) is not type(value):
                yield key, other
    if "rope_parameters" in stated:
        yield "rope_theta", 77.0
        yield "rope_scaling", dict(rope_type="linear", factor=3.0)


def results(family, model):
    """The results of the texts, as the Rust test has them."""
    ids = family.texts()[0][:LENGTH]
    if not isinstance(family, Encoder):
        return family.forward(model, ids).flatten().numpy()
    vector = pool(family.forward(model, ids), family.pooling)
    for weight in family.dense_layers(vector.shape[-1]).values():
        vector = vector @ weight.T
    return torch.nn.functional.normalize(vector, dim=-1).numpy()


def loaded(family, folder):
    own = stand_in(family)
    if own and own.model:
        return own.model(folder)
    model, info = family.model_class.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager",
        experts_implementation="eager", output_loading_info=True,
        **(own.arguments if own else {}))
    if info["missing_keys"] or info["mismatched_keys"]:
        raise ValueError("tensors lack")
    return model.eval()


def write_folder(family, folder, config):
    """A directory that the class reads."""
    own = stand_in(family)
    if own and own.translate:
        config = own.translate(family, folder, config)
    (folder / "config.json").write_text(json.dumps(config))


def outcome(family, folder, config, expected):
    try:
        write_folder(family, folder, config)
        got = results(family, loaded(family, folder))
    except Exception:
        return "refused"
    if not np.isfinite(got).all() or got.shape != expected.shape:
        return "refused"
    moved = np.abs(got - expected)
    if moved.max() < SAME:
        return "same"
    places = np.argsort(-moved)[:PLACES]
    return [[int(place), float(f"{got[place]:.6g}")] for place in places]


def write(family):
    source = FIXTURES / "models" / family.name
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for path in source.iterdir():
            if path.name != "config.json":
                (scratch / path.name).symlink_to(path)
        config = json.loads((source / "config.json").read_text())
        write_folder(family, scratch, config)
        model = loaded(family, scratch)
        expected = results(family, model)
        own = stand_in(family)
        whole = own.keys(model) if own else model.config.get_text_config().to_dict()
        nested = "text_config" in config
        stated = config["text_config"] if nested else config

        def changed(more):
            own = stated | more
            return config | {"text_config": own} if nested else own

        left_out = ("_name_or_path", "quantization", "quantization_config")
        full = {k: v for k, v in whole.items() if k not in stated and k not in left_out}
        if "rope_parameters" not in stated:
            full.pop("rope_parameters", None)
        cases = [dict(keys=full, result=outcome(family, scratch, changed(full), expected))]
        for key, value in all_changes(whole, stated):
            result = outcome(family, scratch, changed({key: value}), expected)
            cases.append(dict(keys={key: value}, result=result))
        for model_class, keys in CLASSES.get(family.name, []):
            other = dataclasses.replace(family, model_class=model_class)
            result = outcome(other, scratch, config | keys, expected)
            cases.append(dict(keys=keys, result=result))
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path = OUT / f"{family.name}.json"
    path.write_text(f"[\n{lines}\n]\n")
    counts = {kind: sum(case["result"] == kind for case in cases) for kind in ("same", "refused")}
    print(f"{family.name}: {len(cases)} {counts} {path.stat().st_size}", flush=True)
    assert path.stat().st_size < 300_000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="the models; default: all")
    names = parser.parse_args().names
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity(100)
    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    # Others give a result of another form than the Rust test.
    plain = (Family, Encoder, Reranker, NemotronH)
    for family in FAMILIES:
        if type(family) in plain and family.kind != "quantized" or stand_in(family):
            if not names or family.name in names:
                write(family)


if __name__ == "__main__":
    main()
