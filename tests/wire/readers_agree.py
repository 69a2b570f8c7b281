"""Decodes untrusted input with all readers, for the tests of hostile input and the fuzzer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftlog.errors import ProtocolError
from kraftlog.wire.codec import decode, decode_request_in_steps
from kraftlog.wire.explain import read_slowly
from kraftlog.wire.versioned_schema import has_batches
from tests.wire.samples import all_messages, plain, versions_of

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message

VERSIONS = [(cls, version) for cls in all_messages() for version in versions_of(cls)]


def choose_message(data: bytes) -> tuple[type[Message], int, bytes]:
    """Choose a message and version by the first two bytes; return them and the other bytes."""
    cls, version = VERSIONS[int.from_bytes(data[:2], "big") % len(VERSIONS)]
    return cls, version, data[2:]


def attempt(
    cls: type[Message], version: int, raw: bytes, start: int = 0, stop: int | None = None
) -> Message | ProtocolError:
    try:
        return decode(cls, version, raw, start, stop)
    except ProtocolError as error:
        return error


def attempt_stepwise(cls: type[Message], version: int, raw: bytes) -> Any:
    """Like `attempt`, in steps, as large requests are read: trailing bytes are ignored."""
    steps = decode_request_in_steps(cls, version, raw)
    try:
        while True:
            next(steps)
    except StopIteration as stop:
        return stop.value
    except ProtocolError as error:
        return error


def assert_readers_agree(cls: type[Message], version: int, raw: bytes) -> ProtocolError | None:
    """Assert that all readers refuse these bytes, or that all return the same message."""
    outcome = attempt(cls, version, raw)
    if not has_batches(cls):
        stepwise = attempt_stepwise(cls, version, raw)
        if not isinstance(outcome, ProtocolError):
            assert plain(stepwise) == plain(outcome)
        elif not outcome.what.endswith("bytes too many"):
            assert isinstance(stepwise, ProtocolError)
    if isinstance(outcome, ProtocolError):
        assert outcome.field.startswith(f"{cls.__name__} v{version}")
        assert 0 <= outcome.position <= len(raw)
        assert outcome.what != "0 bytes too many", "only the slow reader accepts it"
        return outcome
    slow, end = read_slowly(cls, version, raw)
    assert end == len(raw)
    assert plain(slow) == plain(outcome)
    return None
