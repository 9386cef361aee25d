"""A model class for lm-evaluation-harness (`pip install pelton[lm-eval]`).

>>> import lm_eval, pelton
>>> from pelton.lm_eval import PeltonLM
>>> lm_eval.simple_evaluate(model=PeltonLM("model.gguf"), tasks=["lambada_openai"])

Importing this module also registers the class as `--model pelton`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

import pelton

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

# Requests of one call: their results are written to the harness's cache after each.
CHUNK = 256


@register_model("pelton")
class PeltonLM(TemplateLM):
    """A model of Pelton: a loaded one, or what `pelton.load` takes.

    `add_bos_token` decides whether a text begins with the model's token for that; by default the model's
    file does. `max_length` bounds the tokens that a prediction sees.
    """

    def __init__(
        self,
        pretrained: pelton.Model | str | os.PathLike[str] | None = None,
        *,
        device: str = "auto",
        max_length: int | None = None,
        max_gen_toks: int = 256,
        add_bos_token: bool | None = None,
        batch_size: int | str | None = None,
        max_concurrent: int = 8,
        **options: Any,
    ) -> None:
        super().__init__()
        if isinstance(pretrained, pelton.Model):
            self.model = pretrained
        else:
            context = None if max_length is None else int(max_length) + 1
            self.model = pelton.load(
                pretrained,
                device=device or "auto",
                context=context,
                max_concurrent=int(max_concurrent),
                **{key: value for key, value in options.items() if key in LOAD_OPTIONS},
            )
        self.vocabulary = self.model.tokenizer
        # the last token of a text is predicted, and not read
        self.max_length = min(int(max_length or self.model.context), self.model.context - 1)
        self.max_gen_toks = int(max_gen_toks)
        self.add_bos_token = add_bos_token

    @property
    def eot_token_id(self) -> int:
        eos = self.vocabulary.eos_id
        if eos is None:
            raise pelton.UnsupportedError("the model's file names no token that ends a text")
        return eos

    @property
    def prefix_token_id(self) -> int:
        bos = self.vocabulary.bos_id
        return self.eot_token_id if bos is None else bos

    @property
    def tokenizer_name(self) -> str:
        return self.model.name.replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        return self.vocabulary.chat_template if chat_template else None

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        if not add_generation_prompt:
            raise pelton.UnsupportedError("a chat that ends without a turn of the model")
        return self.model.render_chat(chat_history)

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **kwargs: Any
    ) -> list[int]:
        if add_special_tokens is None:
            add_special_tokens = self.add_bos_token is not False
            prefix = self.vocabulary.decode([self.prefix_token_id], special=True)
            if prefix and string.startswith(prefix):
                add_special_tokens = False
        ids = self.vocabulary.encode(string, add_special=add_special_tokens)
        bos = self.vocabulary.bos_id
        if add_special_tokens and self.add_bos_token and bos is not None and ids[:1] != [bos]:
            ids.insert(0, bos)
        return ids

    def _loglikelihood_tokens(
        self,
        requests: Sequence[tuple[Any, list[int], list[int]]],
        disable_tqdm: bool = False,
        **kwargs: Any,
    ) -> list[tuple[float, bool]]:
        results: list[tuple[float, bool]] = []
        for chunk in chunks(requests, CHUNK):
            contexts, continuations = [], []
            for _, context, continuation in chunk:
                kept = (context + continuation)[-(self.max_length + 1) :]
                start = max(len(kept) - len(continuation), 1)
                contexts.append(kept[:start])
                continuations.append(kept[start:])
            scores = self.model.score(contexts, continuations)
            for (key, _, _), score in zip(chunk, scores, strict=True):
                if key is not None:
                    self.cache_hook.add_partial("loglikelihood", key, score)
            results.extend(scores)
        return results

    def loglikelihood_rolling(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        results = []
        for request in requests:
            (text,) = request.args
            windows = get_rolling_token_windows(
                token_list=self.tok_encode(text),
                prefix_token=self.prefix_token_id,
                max_seq_len=self.max_length,
                context_len=1,
            )
            pairs = [(None, *make_disjoint_window(window)) for window in windows]
            total = sum(score for score, _ in self._loglikelihood_tokens(pairs))
            self.cache_hook.add_partial("loglikelihood_rolling", (text,), total)
            results.append(total)
        return results

    def generate_until(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[str]:
        results: list[str] = []
        # requests of the same arguments run together
        for arguments, run in runs(requests):
            options = self._options(arguments)
            most = self.max_length - options["max_tokens"]
            if most < 1:
                raise pelton.TooLongError(
                    f"max_gen_toks is {options['max_tokens']}, expected less than {self.max_length}"
                )
            prompts = [self.tok_encode(request.args[0])[-most:] for request in run]
            texts = [completion.text for completion in self.model.generate(prompts, **options)]
            for request, text in zip(run, texts, strict=True):
                self.cache_hook.add_partial("generate_until", request.args, text)
            results.extend(texts)
        return results

    def _options(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The options of `Model.generate` for the arguments of a task."""
        given = dict(arguments)
        until = given.pop("until", None) or []
        stop = [until] if isinstance(until, str) else list(until)
        tokens = given.pop("max_gen_toks", self.max_gen_toks)
        samples = given.pop("do_sample", None)
        temperature = given.pop("temperature", None)
        if not samples and (samples is False or not temperature):
            temperature = 0.0
        options: dict[str, Any] = {
            "max_tokens": int(tokens),
            "stop": [text for text in stop if text],
            "temperature": 1.0 if temperature is None else float(temperature),
            # as transformers: nothing is filtered unless the task says so
            "top_k": 0,
            "top_p": 1.0,
            "min_p": 0.0,
        }
        names = set(pelton.SAMPLING_OPTIONS)
        options.update({key: value for key, value in given.items() if key in names})
        return options


# The arguments of `pelton.load` that `--model_args` can set further.
LOAD_OPTIONS = frozenset({"threads", "kv", "kv_bytes", "effort", "speculation", "draft", "loras"})


def chunks(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    """Parts of at most `size` items."""
    return (items[at : at + size] for at in range(0, len(items), size))


def runs(requests: Sequence[Instance]) -> Iterable[tuple[dict[str, Any], list[Instance]]]:
    """Neighboring requests with the same arguments, with those."""
    run: list[Instance] = []
    for request in requests:
        if run and (request.args[1] != run[0].args[1] or len(run) == CHUNK):
            yield run[0].args[1], run
            run = []
        run.append(request)
    if run:
        yield run[0].args[1], run
