"""Streams and awaitable calls in asyncio."""

from __future__ import annotations

import asyncio
import functools
import itertools
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

from ._pelton import Bell, Call, load, load_speech

P = ParamSpec("P")
T = TypeVar("T")


class _Waits:
    """The tasks of one event loop that wait for streams.

    The thread that runs a model rings the bell, which is a file that the loop watches.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.bell = Bell()
        self._keys = itertools.count()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        try:
            loop.add_reader(self.bell.fileno(), self._wake)
        except NotImplementedError:
            # the loop of Windows watches no sockets, but reads them
            self._listen(loop, socket.fromfd(self.bell.fileno(), socket.AF_INET, socket.SOCK_STREAM))

    def connect(self, stream: Any) -> int:
        """The key of a stream, which rings the bell from now on."""
        key = next(self._keys)
        stream._connect(self.bell, key)
        return key

    def wait(self, key: int) -> asyncio.Future[None]:
        """Done when the stream with the key has news."""
        future = self._waiting[key] = asyncio.get_running_loop().create_future()
        return future

    def _wake(self) -> None:
        for key in self.bell.take():
            future = self._waiting.pop(key, None)
            if future is not None and not future.done():
                future.set_result(None)

    def _listen(self, loop: asyncio.AbstractEventLoop, reader: socket.socket) -> None:
        reader.setblocking(False)
        read = loop.create_task(loop.sock_recv(reader, 8))
        read.add_done_callback(functools.partial(self._heard, loop, reader))

    def _heard(
        self, loop: asyncio.AbstractEventLoop, reader: socket.socket, read: asyncio.Task[bytes]
    ) -> None:
        # the end of the loop cancels it
        if read.cancelled() or read.exception() is not None:
            return reader.close()
        self._wake()
        self._listen(loop, reader)


_waits: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waits] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def _waits_of(loop: asyncio.AbstractEventLoop) -> _Waits:
    with _lock:
        waits = _waits.get(loop)
        if waits is None:
            waits = _waits[loop] = _Waits(loop)
        return waits


class AsyncStream(Generic[T]):
    """The items of a stream as an asynchronous iterator, for one task.

    The thread that runs the model wakes the event loop, and each wake takes everything that has come. A
    request is cancelled by `aclose`, by leaving `async with`, and by the deletion of the iterator.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._items: deque[T] = deque()
        self._waits: _Waits | None = None
        self._key = 0
        self._ended = False
        self._error: BaseException | None = None

    def __aiter__(self) -> AsyncStream[T]:
        return self

    async def __anext__(self) -> T:
        while not self._items:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if self._ended:
                raise StopAsyncIteration
            if self._waits is None:
                self._waits = _waits_of(asyncio.get_running_loop())
                self._key = self._waits.connect(self.stream)
            # what comes after this call wakes the loop
            items, self._ended, self._error = self.stream._drain()
            self._items.extend(items)
            if not items and not self._ended:
                await self._waits.wait(self._key)
        return self._items.popleft()

    async def aclose(self) -> None:
        """Cancels the request."""
        self.stream.cancel()

    async def __aenter__(self) -> AsyncStream[T]:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


async def awaited(function: Callable[..., T], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> T:
    """The result of a call, which runs on a thread of its own.

    The cancellation of the task cancels the call and its requests.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    call = Call()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = call.run(function, arguments, keywords)
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            # the loop was closed: nobody waits
            pass

    threading.Thread(target=run, name="pelton-call").start()
    try:
        return await future
    finally:
        call.cancel()


def _awaitable(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    @functools.wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> Coroutine[Any, Any, T]:
        return awaited(function, arguments, keywords)

    call.__name__ = call.__qualname__ = "a" + function.__name__
    call.__doc__ = f"`{function.__name__}`, to be awaited."
    return call


aload = _awaitable(load)
aload_speech = _awaitable(load_speech)
