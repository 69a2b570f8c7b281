"""The receive buffer of a connection to a peer: frames from pieces, no whole frame copied."""

from __future__ import annotations

import struct

import pytest

from kraftlog.runner.receive_buffer import (
    FIRST_SIZE,
    MAX_FRAME,
    MAX_KEPT,
    FrameLengthError,
    ReceiveBuffer,
)


def frame_of(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def receive(buffer: ReceiveBuffer, data: bytes, piece_size: int) -> list[bytes]:
    """The frames that arrive, if at most `piece_size` bytes are received at a time."""
    frames = []
    while data:
        room = buffer.room()
        count = min(len(room), len(data), piece_size)
        room[:count] = data[:count]
        buffer.received(count)
        data = data[count:]
        while (frame := buffer.next_frame()) is not None:
            frames.append(bytes(frame))
    return frames


@pytest.mark.parametrize("piece_size", [1, 3, 7, 1000, 1 << 30])
def test_frames_are_whole_however_the_bytes_arrive(piece_size: int) -> None:
    bodies = [b"abcd", b"x" * 5000, b"efgh!", b"y" * 300]
    buffer = ReceiveBuffer()
    assert receive(buffer, b"".join(map(frame_of, bodies)), piece_size) == bodies


def test_a_frame_larger_than_the_buffer_is_whole() -> None:
    buffer = ReceiveBuffer()
    body = b"z" * (3 << 20)
    assert receive(buffer, frame_of(body) + frame_of(b"next"), 1 << 16) == [body, b"next"]


@pytest.mark.parametrize("size", [100, FIRST_SIZE, 2 * MAX_KEPT])
def test_a_lent_frame_keeps_its_bytes_until_the_next_is_complete(size: int) -> None:
    buffer = ReceiveBuffer()
    bodies = [bytes([number]) * size for number in range(4)]
    lent: memoryview | None = None
    for number, body in enumerate(bodies):
        data = frame_of(body)
        while data:
            room = buffer.room()
            count = min(len(room), len(data), max(4096, size // 16))
            room[:count] = data[:count]
            buffer.received(count)
            data = data[count:]
            assert lent is None or bytes(lent) == bodies[number - 1]
        lent = buffer.next_frame()
        buffer.lend()
        assert lent is not None
        assert bytes(lent) == body


def test_a_slightly_larger_frame_needs_no_new_buffer() -> None:
    """Two buffers take turns, although the responses to a follower differ in size."""
    buffer = ReceiveBuffer()
    used: list[memoryview] = []
    for size in (3_000_000, 3_100_000, 3_050_000, 3_140_000, 3_000_000, 3_130_000):
        data = frame_of(bytes(size))
        while data:
            room = buffer.room()
            count = min(len(room), len(data))
            room[:count] = data[:count]
            buffer.received(count)
            data = data[count:]
        frame = buffer.next_frame()
        assert frame is not None
        used.append(frame)
        buffer.lend()
    assert len({id(frame.obj) for frame in used}) == 2


def test_bytes_after_a_lent_frame_are_kept() -> None:
    buffer = ReceiveBuffer()
    data = frame_of(b"first") + frame_of(b"second")[:7]
    buffer.room()[: len(data)] = data
    buffer.received(len(data))
    first = buffer.next_frame()
    buffer.lend()
    rest = frame_of(b"second")[7:]
    buffer.room()[: len(rest)] = rest
    buffer.received(len(rest))
    second = buffer.next_frame()
    assert first is not None
    assert second is not None
    assert (bytes(first), bytes(second)) == (b"first", b"second")


@pytest.mark.parametrize("size", [-1, 0, 3, MAX_FRAME + 1])
def test_an_invalid_frame_length_is_refused(size: int) -> None:
    buffer = ReceiveBuffer()
    with pytest.raises(FrameLengthError):
        receive(buffer, struct.pack(">i", size) + bytes(FIRST_SIZE), 1 << 20)
