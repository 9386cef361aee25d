"""The errors of the package. Messages say what was found and what to do."""


class PeltonError(Exception):
    """Any error of a model, a request or a download."""


class NotFoundError(PeltonError, FileNotFoundError):
    """A file or a folder is not there."""


class FileError(PeltonError, OSError):
    """A file could not be read, for another reason than that it is not there."""


class DownloadError(PeltonError, OSError):
    """A model of a hub could not be found or downloaded."""


class InvalidModelError(PeltonError, ValueError):
    """A file of a model is broken, incomplete or contradicts another one."""


class UnsupportedError(PeltonError, NotImplementedError):
    """The model, the device or this build cannot do it."""


class InvalidInputError(PeltonError, ValueError):
    """An option, a prompt, a message or a constraint is not valid."""


class TooLongError(InvalidInputError):
    """A prompt or a text is longer than the context."""


class OutOfMemoryError(PeltonError, MemoryError):
    """There is not enough memory."""


class BusyError(PeltonError):
    """The queue is full: the same request may succeed later."""


class TimedOutError(PeltonError, TimeoutError):
    """The time of the argument `timeout` has passed."""


class CancelledError(PeltonError):
    """The request was cancelled, or the model was unloaded."""


class DeviceError(PeltonError):
    """The device could not be opened, or does not work."""


class InternalError(PeltonError):
    """The model does not answer any more, or its results are not numbers."""


class ForkedError(PeltonError, RuntimeError):
    """The model was loaded before a fork, by the parent of this process."""


# messages and pickles name the package
for _class in [value for value in vars().values() if isinstance(value, type)]:
    _class.__module__ = "pelton"
del _class
