import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Literal, NotRequired, TypeAlias, TypedDict, TypeVar, final, overload

from typing_extensions import Buffer, Self, Unpack

from ._aio import AsyncStream

__version__: Final[str]
LOAD_OPTIONS: Final[tuple[str, ...]]
SAMPLING_OPTIONS: Final[tuple[str, ...]]

_Path: TypeAlias = str | os.PathLike[str]
_Prompt: TypeAlias = str | Sequence[int]
_Json: TypeAlias = Mapping[str, Any]
_T = TypeVar("_T")
_FinishReason: TypeAlias = Literal["stop", "length", "cancelled"]

class _Ranked(TypedDict):
    index: int
    score: float
    document: NotRequired[str]

class _LoadOptions(TypedDict, total=False):
    # with context, the same names as in LOAD_OPTIONS
    fit_context: bool | None
    max_concurrent: int | None
    rows: int | None
    pooling: Literal["mean", "cls", "last", "none"] | None
    loras: Sequence[tuple[_Path, float]] | None
    quantize: str | None
    kv: str | None
    kv_memory: int | str | None
    kv_bytes: int | str | None
    kv_share: float | None
    # pictures
    pictures: Literal["on", "off"] | None
    mmproj: _Path | None
    picture_tokens: int | None
    picture_tokens_min: int | None
    override_kv: Sequence[str] | None
    rope_scaling: Literal["none", "linear", "yarn"] | None
    rope_scale: float | None
    yarn_orig_ctx: int | None
    rope_freq_base: float | None
    # devices
    gpu_layers: int | None
    host_experts: int | Literal["auto"] | None
    host_ffn: int | Literal["auto"] | None
    stream_from: int | None
    split: Sequence[int] | str | None
    gpu_memory: int | str | None
    gpu_margin: int | str | None
    # many requests; times are in seconds
    queue_requests: int | None
    queue_tokens: int | None
    prefill_budget: float | str | None
    target_ttft: float | str | None
    target_tbt: float | str | None
    # drafted tokens and effort
    speculation: Literal["auto", "off", "always"] | None
    draft: _Path | None
    draft_head: bool | None
    effort: bool | float | str | None

class _Options(TypedDict, total=False):
    # sampling: the same names as in SAMPLING_OPTIONS
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    penalty_window: int | None
    top_n_sigma: float | None
    typical_p: float | None
    xtc_probability: float | None
    xtc_threshold: float | None
    dynatemp_range: float | None
    dynatemp_exponent: float | None
    dry_multiplier: float | None
    dry_base: float | None
    dry_allowed_length: int | None
    dry_window: int | None
    dry_breakers: Sequence[str] | None
    mirostat: int | None
    mirostat_tau: float | None
    mirostat_eta: float | None
    adaptive_target: float | None
    adaptive_decay: float | None
    min_keep: int | None
    order: Sequence[str] | str | None
    seed: int | None
    # the text
    max_tokens: int | None
    stop: str | Sequence[str] | None
    ignore_eos: bool | None
    logit_bias: Mapping[int, float] | None
    # results
    logprobs: int | None
    prompt_logprobs: int | None
    # at most one constraint
    json_schema: _Json | str | bool | None
    regex: str | None
    lark: str | None
    gbnf: str | None
    choices: Sequence[str] | None
    # the run
    effort: float | str | None
    effort_in_prompt: bool | None
    loras: Mapping[str, float] | None
    timeout: float | None
    cache_salt: int | None
    priority: int | None
    prediction: str | None
    speculation: Literal["auto", "always", "off"] | None

@final
class Token:
    @property
    def id(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def logprob(self) -> float | None: ...
    @property
    def top(self) -> list[tuple[int, float]]: ...

@final
class Usage:
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def cached_tokens(self) -> int: ...
    @property
    def completion_tokens(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def queue_time(self) -> float | None: ...
    @property
    def time_to_first_token(self) -> float | None: ...
    @property
    def prompt_tokens_per_second(self) -> float | None: ...
    @property
    def tokens_per_second(self) -> float | None: ...

@final
class Completion:
    @property
    def text(self) -> str: ...
    @property
    def tokens(self) -> list[int]: ...
    @property
    def finish_reason(self) -> _FinishReason: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def logprobs(self) -> list[Token] | None: ...
    @property
    def prompt_logprobs(self) -> list[Token] | None: ...

@final
class Bell:
    def __new__(cls) -> Self: ...
    def fileno(self) -> int: ...
    def take(self) -> list[int]: ...

@final
class Call:
    def __new__(cls) -> Self: ...
    def run(
        self,
        function: Callable[..., _T],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> _T: ...
    def cancel(self) -> None: ...

@final
class TokenStream:
    def __iter__(self) -> Self: ...
    def __next__(self) -> Token: ...
    def __aiter__(self) -> AsyncStream[Token]: ...
    def cancel(self) -> None: ...
    @property
    def finish_reason(self) -> _FinishReason | None: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def prompt_logprobs(self) -> list[Token]: ...
    def _drain(self) -> tuple[list[Token], bool, BaseException | None]: ...
    def _connect(self, bell: Bell, key: int) -> None: ...

@final
class ChatStream:
    def __iter__(self) -> Self: ...
    def __next__(self) -> dict[str, Any]: ...
    def __aiter__(self) -> AsyncStream[dict[str, Any]]: ...
    def cancel(self) -> None: ...
    @property
    def finish_reason(self) -> _FinishReason | Literal["tool_calls"] | None: ...
    def _drain(self) -> tuple[list[dict[str, Any]], bool, BaseException | None]: ...
    def _connect(self, bell: Bell, key: int) -> None: ...

@final
class Array:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    def tolist(self) -> list[Any]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...

@final
class Tokenizer:
    def encode(self, text: str, *, add_special: bool = True) -> list[int]: ...
    def decode(self, ids: Sequence[int], *, special: bool = False) -> str: ...
    def token_bytes(self, id: int) -> bytes | None: ...
    @property
    def bos_id(self) -> int | None: ...
    @property
    def eos_id(self) -> int | None: ...
    @property
    def end_ids(self) -> list[int]: ...
    @property
    def chat_template(self) -> str | None: ...
    def __len__(self) -> int: ...

@final
class Model:
    @overload
    def generate(self, prompt: str, **options: Unpack[_Options]) -> Completion: ...
    @overload
    def generate(
        self, prompt: list[str] | list[list[int]], **options: Unpack[_Options]
    ) -> list[Completion]: ...
    @overload
    def generate(self, prompt: Sequence[int], **options: Unpack[_Options]) -> Completion: ...
    def stream(self, prompt: _Prompt, **options: Unpack[_Options]) -> TokenStream: ...
    def astream(self, prompt: _Prompt, **options: Unpack[_Options]) -> AsyncStream[Token]: ...
    @overload
    def chat(
        self,
        messages: str | Sequence[_Json],
        tools: Sequence[_Json] | None = None,
        *,
        images: Sequence[bytes | _Path] | None = None,
        tool_choice: str | _Json | None = None,
        parallel_tool_calls: bool = True,
        stream: Literal[False] = False,
        enable_thinking: bool | None = None,
        reasoning_effort: str | None = None,
        continue_final_message: bool = False,
        template_kwargs: _Json | None = None,
        **options: Unpack[_Options],
    ) -> dict[str, Any]: ...
    @overload
    def chat(
        self,
        messages: str | Sequence[_Json],
        tools: Sequence[_Json] | None = None,
        *,
        images: Sequence[bytes | _Path] | None = None,
        tool_choice: str | _Json | None = None,
        parallel_tool_calls: bool = True,
        stream: Literal[True],
        enable_thinking: bool | None = None,
        reasoning_effort: str | None = None,
        continue_final_message: bool = False,
        template_kwargs: _Json | None = None,
        **options: Unpack[_Options],
    ) -> ChatStream: ...
    def render_chat(
        self,
        messages: str | Sequence[_Json],
        tools: Sequence[_Json] | None = None,
        *,
        enable_thinking: bool | None = None,
    ) -> str: ...
    @overload
    def score(self, context: str, continuation: str) -> tuple[float, bool]: ...
    @overload
    def score(
        self,
        context: list[str] | list[list[int]],
        continuation: list[str] | list[list[int]],
    ) -> list[tuple[float, bool]]: ...
    @overload
    def score(self, context: Sequence[int], continuation: Sequence[int]) -> tuple[float, bool]: ...
    def logits(self, prompt: _Prompt, *, last: bool = False) -> Array: ...
    def embed(
        self,
        texts: str | Sequence[str] | Sequence[int] | Sequence[list[int]],
        *,
        dimensions: int | None = None,
        normalize: bool = True,
    ) -> Array | list[Array]: ...
    def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        top_n: int | None = None,
        return_documents: bool = False,
        raw_scores: bool = False,
    ) -> list[_Ranked]: ...
    @overload
    def agenerate(self, prompt: str, **options: Unpack[_Options]) -> Coroutine[Any, Any, Completion]: ...
    @overload
    def agenerate(
        self, prompt: list[str] | list[list[int]], **options: Unpack[_Options]
    ) -> Coroutine[Any, Any, list[Completion]]: ...
    @overload
    def agenerate(self, prompt: Sequence[int], **options: Unpack[_Options]) -> Coroutine[Any, Any, Completion]: ...
    @overload
    def achat(
        self,
        messages: str | Sequence[_Json],
        tools: Sequence[_Json] | None = None,
        *,
        images: Sequence[bytes | _Path] | None = None,
        tool_choice: str | _Json | None = None,
        parallel_tool_calls: bool = True,
        stream: Literal[False] = False,
        enable_thinking: bool | None = None,
        reasoning_effort: str | None = None,
        continue_final_message: bool = False,
        template_kwargs: _Json | None = None,
        **options: Unpack[_Options],
    ) -> Coroutine[Any, Any, dict[str, Any]]: ...
    @overload
    def achat(
        self,
        messages: str | Sequence[_Json],
        tools: Sequence[_Json] | None = None,
        *,
        images: Sequence[bytes | _Path] | None = None,
        tool_choice: str | _Json | None = None,
        parallel_tool_calls: bool = True,
        stream: Literal[True],
        enable_thinking: bool | None = None,
        reasoning_effort: str | None = None,
        continue_final_message: bool = False,
        template_kwargs: _Json | None = None,
        **options: Unpack[_Options],
    ) -> Coroutine[Any, Any, ChatStream]: ...
    @overload
    def ascore(self, context: str, continuation: str) -> Coroutine[Any, Any, tuple[float, bool]]: ...
    @overload
    def ascore(
        self,
        context: list[str] | list[list[int]],
        continuation: list[str] | list[list[int]],
    ) -> Coroutine[Any, Any, list[tuple[float, bool]]]: ...
    @overload
    def ascore(
        self, context: Sequence[int], continuation: Sequence[int]
    ) -> Coroutine[Any, Any, tuple[float, bool]]: ...
    def alogits(self, prompt: _Prompt, *, last: bool = False) -> Coroutine[Any, Any, Array]: ...
    def aembed(
        self,
        texts: str | Sequence[str] | Sequence[int] | Sequence[list[int]],
        *,
        dimensions: int | None = None,
        normalize: bool = True,
    ) -> Coroutine[Any, Any, Array | list[Array]]: ...
    def arerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        top_n: int | None = None,
        return_documents: bool = False,
        raw_scores: bool = False,
    ) -> Coroutine[Any, Any, list[_Ranked]]: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def name(self) -> str: ...
    @property
    def context(self) -> int: ...
    @property
    def device(self) -> str: ...

@final
class Word:
    @property
    def text(self) -> str: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...
    @property
    def probability(self) -> float: ...

@final
class Segment:
    @property
    def text(self) -> str: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...
    @property
    def tokens(self) -> list[int]: ...
    @property
    def average_logprob(self) -> float: ...
    @property
    def no_speech_prob(self) -> float: ...
    @property
    def words(self) -> list[Word]: ...

@final
class Transcript:
    @property
    def text(self) -> str: ...
    @property
    def language(self) -> str: ...
    @property
    def segments(self) -> list[Segment]: ...
    def to(self, format: str) -> str: ...

@final
class LiveTranscript:
    def push(self, samples: Buffer, /) -> list[Word]: ...
    def finish(self) -> list[Word]: ...
    def apush(self, samples: Buffer, /) -> Coroutine[Any, Any, list[Word]]: ...
    def afinish(self) -> Coroutine[Any, Any, list[Word]]: ...
    @property
    def pending(self) -> list[Word]: ...
    @property
    def language(self) -> str | None: ...

@final
class SpeechModel:
    def transcribe(
        self,
        audio: _Path | Buffer,
        *,
        language: str | None = None,
        task: Literal["transcribe", "translate"] = "transcribe",
        words: bool = False,
        prompt: str | None = None,
        beam_size: int | None = None,
        temperatures: Sequence[float] | None = None,
        vad: bool = False,
        batched: bool = False,
        seed: int | None = None,
    ) -> Transcript: ...
    def atranscribe(
        self,
        audio: _Path | Buffer,
        *,
        language: str | None = None,
        task: Literal["transcribe", "translate"] = "transcribe",
        words: bool = False,
        prompt: str | None = None,
        beam_size: int | None = None,
        temperatures: Sequence[float] | None = None,
        vad: bool = False,
        batched: bool = False,
        seed: int | None = None,
    ) -> Coroutine[Any, Any, Transcript]: ...
    def live(
        self,
        *,
        language: str | None = None,
        task: Literal["transcribe", "translate"] = "transcribe",
        beam_size: int | None = None,
        temperatures: Sequence[float] | None = None,
        seed: int | None = None,
        step: float = 1.0,
    ) -> LiveTranscript: ...
    @property
    def name(self) -> str: ...

def load(
    path: _Path | None = None,
    device: str = "auto",
    context: int | None = None,
    *,
    threads: int | None = None,
    **options: Unpack[_LoadOptions],
) -> Model: ...
def load_speech(
    path: _Path | None = None,
    device: str = "auto",
    *,
    threads: int | None = None,
    windows: int = 1,
    beams: int = 5,
    kv: str = "f16",
) -> SpeechModel: ...
def _time_in_rust(model: Model, prompt: Sequence[int], max_tokens: int) -> tuple[int, float]: ...
