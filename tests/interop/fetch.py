"""Downloads and builds all third-party software for tests in `.cache`.

python -m tests.interop.fetch      prints a line for each unavailable item
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.interop.cache import UnavailableError
from tests.interop.kafka_jars import driver_classes, kafka_libs, require_java
from tests.interop.programs import go_program, js_program
from tests.interop.spark_jars import fetched_jars

if TYPE_CHECKING:
    from collections.abc import Callable


def java() -> None:
    require_java()
    driver_classes(kafka_libs())


def main() -> None:
    for name, bring in {
        "Kafka's own code": java,
        "Spark's Kafka connector": fetched_jars,
        "clients for JavaScript": lambda: js_program("kafkajs"),
        "the client for Go": go_program,
    }.items():
        complaint = tried(bring) and tried(bring)  # networks fail temporarily
        if complaint:
            print(f"interop: without {name}: {complaint}")


def tried(bring: Callable[[], object]) -> str:
    """Why it is not available, or nothing."""
    try:
        bring()
    except UnavailableError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main()
