"""UUIDs in the format of Kafka's tools."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.types import uuid_from_text, uuid_text


@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_is_read_as_it_was_printed(uuid: bytes) -> None:
    text = uuid_text(uuid)
    assert len(text) == 22
    assert uuid_from_text(text) == uuid


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 21, "A" * 23, "A" * 21 + " A", "é" * 22])
def test_a_text_of_wrong_length_or_letters_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a UUID of 22"):
        uuid_from_text(text)
