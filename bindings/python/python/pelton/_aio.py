"""Streams in asyncio."""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from types import TracebackType
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class AsyncStream(Generic[T]):
    """The items of a stream as an asynchronous iterator, for one task.

    The thread that runs the model wakes the event loop, and each wake takes everything that has come. A
    request is cancelled by `aclose`, by leaving `async with`, and by the deletion of the iterator.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._items: deque[T] = deque()
        self._ready: asyncio.Event | None = None
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
            if self._ready is None:
                self._ready = asyncio.Event()
                loop = asyncio.get_running_loop()
                wake = functools.partial(loop.call_soon_threadsafe, self._ready.set)
                self.stream._on_ready(wake)
            self._ready.clear()
            # what comes after this call wakes the loop
            items, self._ended, self._error = self.stream._drain()
            self._items.extend(items)
            if not items and not self._ended:
                await self._ready.wait()
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
