"""Downloads and builds all third-party software for tests in `.cache`.

python -m tests.interop.fetch      prints a line for each unavailable item
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.interop.cache import UnavailableError
from tests.interop.kafka_jars import driver_classes, kafka_libs, previous_kafka_libs, require_java
from tests.interop.programs import go_program, js_program
from tests.interop.spark_jars import fetched_jars

if TYPE_CHECKING:
    from collections.abc import Callable


def java() -> None:
    require_java()
    driver_classes(kafka_libs())


#: What Maven downloads: one after the other, as they share its local repository.
BY_MAVEN: dict[str, Callable[[], object]] = {
    "Kafka's own code": java,
    "the previous release of Kafka": previous_kafka_libs,
    "Spark's Kafka connector": fetched_jars,
}
BY_OTHERS: dict[str, Callable[[], object]] = {
    "clients for JavaScript": lambda: js_program("kafkajs"),
    "the client for Go": go_program,
}


def main() -> None:
    with ThreadPoolExecutor() as pool:
        list(pool.map(fetch, (BY_MAVEN, BY_OTHERS)))


def fetch(downloads: dict[str, Callable[[], object]]) -> None:
    """Download one after the other; print a line for each that fails."""
    for name, download in downloads.items():
        # A second attempt after a failure, as networks fail temporarily.
        complaint = reason_unavailable(download) and reason_unavailable(download)
        if complaint:
            print(f"interop: without {name}: {complaint}")


def reason_unavailable(download: Callable[[], object]) -> str:
    """Run `download`; return why its software is not available, or an empty string."""
    try:
        download()
    except UnavailableError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main()
