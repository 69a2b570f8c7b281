"""The Spark session that all tests of this folder share, and their client."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from tests.interop.cache import UnavailableError
from tests.interop.spark_jars import connector_jars
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

#: For short runs: little memory, and a quick compiler without optimisations.
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.streaming.stateStore.maintenanceInterval": "1h",
}


@pytest.hookimpl(tryfirst=True)  # before xdist adds the groups of tests to their ids
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests of Spark in one process, so that they share one JVM; mark them."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("jvm"))
        if "connector" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    if find_spec("pyspark") is None:
        pytest.skip("Apache Spark: not installed (make test installs it)")
    from kraftlog.spark.session import spark_session

    settings = SETTINGS | {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    with suppress(UnavailableError):  # tests of the connector are skipped
        settings["spark.jars"] = ",".join(connector_jars())
    session = spark_session("tests", master="local[2]", settings=settings)
    yield session
    session.stop()


@pytest.fixture
def our_client(our_node: str) -> Iterator[Client]:
    with Client(our_node, timeout_s=LIMIT_S) as connected:
        yield connected


@pytest.fixture(scope="session")
def connector(spark: SparkSession) -> str:
    """The name of Spark's own Kafka connector, for tests that compare with it."""
    try:
        connector_jars()
    except UnavailableError as error:
        pytest.skip(f"Spark's Kafka connector: {error}")
    return "kafka"
