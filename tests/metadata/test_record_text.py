"""Metadata records as text for operators."""

from __future__ import annotations

import pytest

from kraftlog.metadata.image import Image, ReplayError
from kraftlog.metadata.record_text import record_text, value_text
from kraftlog.types import uuid_from_text
from kraftlog.wire.messages.metadata_records import RemoveTopicRecord, TopicRecord

TOPIC_ID = "nNdKd1CLSguetaRYtLbkWQ"


def test_ids_null_and_bytes_are_shown_as_kafkas_tools_do() -> None:
    record = TopicRecord(name="demo", topic_id=uuid_from_text(TOPIC_ID))
    assert record_text(record) == f"TopicRecord(name: demo, topic_id: {TOPIC_ID})"
    assert value_text((None, True, b"\xff", ["a", 1])) == "[null, true, 0xff, [a, 1]]"
    long = TopicRecord(name="x" * 2000, topic_id=uuid_from_text(TOPIC_ID))
    assert len(record_text(long)) == 1000


def test_a_record_about_a_missing_topic_names_its_id() -> None:
    record = RemoveTopicRecord(topic_id=uuid_from_text(TOPIC_ID))
    with pytest.raises(ReplayError) as raised:
        Image().replay(record)
    assert str(raised.value) == (
        f"RemoveTopicRecord(topic_id: {TOPIC_ID}) refers to {TOPIC_ID}, which does not exist"
    )
