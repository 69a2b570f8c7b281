"""A Python process that Spark could not start in time does not end an archive; without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.spark.lake.topic_archive import TopicArchive
from kraftlog.spark.pipelines import common
from tests.spark.archives import archive, produce
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: As Spark's exception of a failed query begins.
START_FAILED = (
    "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back."
)


class Query:
    """A query that has ended, with an error or without."""

    def __init__(self, error: str) -> None:
        self._error = error

    def awaitTermination(self, _timeout: float) -> bool:  # noqa: N802 - Spark's name
        if self._error:
            raise RuntimeError(self._error)
        return True

    def stop(self) -> None:
        pass


@pytest.mark.parametrize(
    ("errors", "code", "starts"),
    [
        ([START_FAILED] * 3, 0, 4),
        ([START_FAILED] * 30, 1, 10),
        (["another error"], 1, 1),
    ],
)
def test_a_query_without_its_python_process_is_started_again(
    our_node: str,
    named: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    errors: list[str],
    code: int,
    starts: int,
) -> None:
    queries = [Query(error) for error in errors] + [Query("")]
    started = iter(queries)
    monkeypatch.setattr(common.Pipeline, "spark", None)
    monkeypatch.setattr(TopicArchive, "start", lambda *_: next(started))
    with Client(our_node, timeout_s=LIMIT_S) as client:
        client.create_topic(named("t"), partitions=2)
        produce(client, named("t"), 1)
    assert archive(our_node, tmp_path, named("t")) == code
    assert len(queries) - len(list(started)) == starts
