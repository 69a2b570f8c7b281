"""The one vocabulary of things to do, and of what came of them.

Whoever decides appends effects; a host carries them out, in order. What came of an effect comes
back as a message. `after` names the durable point that an effect waits for: data that a test
compares, not an order of calls. An effect that waits holds back no other one; a crash drops it.

The data plane has a door of its own beside this one, as an object for each of a few hundred
thousand requests a second is more than they cost otherwise: see `Turn`.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.types import LogName, Uuid

# Durable points ----------------------------------------------------------------------------------


class FlushedTo(Value):
    """The log is on disk up to, not including, this offset."""

    log: LogName
    offset: int


# Effects -----------------------------------------------------------------------------------------


class OpenLog(Value):
    """Open or make a log; answered by LogOpened or LogFailed."""

    log: LogName
    topic_id: Uuid


class Reply(Value):
    """Answer a request."""

    slot: Any  # a Slot of the host's connection
    response: Any  # a message of the API's response class
    after: FlushedTo | None = None


# What came of them -------------------------------------------------------------------------------


class LogOpened(Value):
    """A log is there. It holds the offsets from `start` to before `end`."""

    log: LogName
    start: int
    end: int


class LogFailed(Value):
    """A log could not be opened, read or written; `why` is for people."""

    log: LogName
    why: str


class LogFlushed(Value):
    """What had been written to a log up to before `offset` is durable."""

    log: LogName
    offset: int
