"""Fixtures for third-party software; a test whose software is missing is skipped."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.interop.cache import UnavailableError
from tests.interop.driver import Driver
from tests.interop.kafka_broker import standalone_kafka
from tests.interop.kafka_jars import kafka_libs, require_java

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Kafka's tools and classes, in one JVM per test run."""
    log = tmp_path_factory.mktemp("jvm") / "stderr.txt"
    try:
        driver = Driver.start(str(log))
    except UnavailableError as e:
        pytest.skip(f"Kafka's own code: {e}")
    yield driver
    driver.close()


@pytest.fixture(scope="session")
def kafka_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the broker that `kafka` starts; `data` in it is the log directory."""
    return str(tmp_path_factory.mktemp("kafka"))


@pytest.fixture(scope="session")
def kafka_jars() -> str:
    """The folder with the jars of Kafka, for tests that start nodes of Kafka of their own."""
    try:
        require_java()
        return kafka_libs()
    except UnavailableError as e:
        pytest.skip(f"Kafka's own code: {e}")


@pytest.fixture(scope="session")
def kafka(
    kafka_folder: str,
    kafka_jars: str,
) -> Iterator[str]:
    """The address of a Kafka broker, one per test run."""
    with standalone_kafka(kafka_folder) as address:
        yield address


@pytest.fixture(scope="session")
def kcat() -> str:
    """The path of kcat, librdkafka's command-line client."""
    path = shutil.which("kcat")
    if not path:
        pytest.skip("kcat: not on PATH (apt-get install kcat, or tests/interop/setup.sh)")
    return path


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a browser, for tests of HTML pages."""
    path = shutil.which("chromium")
    if not path:
        pytest.skip("chromium: not on PATH (apt-get install chromium, or tests/interop/setup.sh)")
    return path


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use these fixtures; tests of the JVM share one worker and one JVM."""
    for item in items:
        used = getattr(item, "fixturenames", ())
        if {"jvm", "kafka", "kafka_jars", "kcat", "chromium"} & set(used):
            item.add_marker(pytest.mark.interop)
        if {"jvm", "kafka"} & set(used):
            item.add_marker(pytest.mark.xdist_group("jvm"))
