"""A language-model inference engine: a model file and a prompt in, text out.

>>> import pelton
>>> model = pelton.load()  # the model within the package
>>> print(model.generate("Once upon a time", max_tokens=20, temperature=0))
>>> model.chat([{"role": "user", "content": "What is 2 plus 3?"}])

A model belongs to the process that loaded it. Threads can share it.
"""

from ._aio import AsyncStream, aload, aload_speech
from ._errors import (
    BusyError,
    CancelledError,
    DeviceError,
    DownloadError,
    FileError,
    ForkedError,
    InternalError,
    InvalidInputError,
    InvalidModelError,
    NotFoundError,
    OutOfMemoryError,
    PeltonError,
    TimedOutError,
    TooLongError,
    UnsupportedError,
)
from ._pelton import (
    LOAD_OPTIONS,
    SAMPLING_OPTIONS,
    Array,
    ChatStream,
    Completion,
    LiveTranscript,
    Model,
    Segment,
    SpeechModel,
    Token,
    Tokenizer,
    TokenStream,
    Transcript,
    Usage,
    Word,
    __version__,
    load,
    load_speech,
)

__all__ = [
    "LOAD_OPTIONS",
    "SAMPLING_OPTIONS",
    "Array",
    "AsyncStream",
    "BusyError",
    "CancelledError",
    "ChatStream",
    "Completion",
    "DeviceError",
    "DownloadError",
    "FileError",
    "ForkedError",
    "InternalError",
    "InvalidInputError",
    "InvalidModelError",
    "LiveTranscript",
    "Model",
    "NotFoundError",
    "OutOfMemoryError",
    "PeltonError",
    "Segment",
    "SpeechModel",
    "TimedOutError",
    "Token",
    "TokenStream",
    "Tokenizer",
    "TooLongError",
    "Transcript",
    "UnsupportedError",
    "Usage",
    "Word",
    "__version__",
    "aload",
    "aload_speech",
    "load",
    "load_speech",
]
