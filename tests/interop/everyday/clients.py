"""The clients that do the everyday work, the files with their versions, and missing calls."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from tests.interop.everyday.work import EXPECTED, run_program
from tests.interop.programs import go_program, js_program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.interop.everyday.work import Facts

PYTHON = ("requirements/dev.txt", r"^{}==(\S+)")
NPM = ("tests/interop/js/package.json", r'"{}": "(.+?)"')
GO = ("tests/interop/go/go.mod", r"\b{} v(\S+)")
MAVEN = ("tests/interop/jvm/pom.xml", r"<{}>(.+?)<")


class Client(NamedTuple):
    """A client, and where its version is; `lacks` has the facts for which it has no call."""

    language: str
    name: str
    pinned: tuple[str, str]  # a file, and the pattern of a version in it
    package: str  # its name in that file
    program: str  # a module in this folder, a program in ../js, or "" for the program in ../go
    lacks: Mapping[str, tuple[str, ...]] = {}

    def version(self, files: Mapping[str, str]) -> str:
        path, pattern = self.pinned
        found = re.search(pattern.format(re.escape(self.package)), files[path], re.MULTILINE)
        assert found, f"{path} has no {self.package}"
        return found[1]

    def expected(self) -> dict[str, Facts]:
        return {
            piece: {k: v for k, v in facts.items() if k not in self.lacks.get(piece, ())}
            for piece, facts in EXPECTED.items()
        }

    def work(self, address: str) -> dict[str, Facts]:
        """Do all pieces of work; return the facts of each."""
        if self.language == "Python":
            module = f"tests.interop.everyday.{self.program}"
            return run_program([sys.executable, "-m", module], address)
        return run_program(js_program(self.program) if self.program else go_program(), address)


CLIENTS = (
    Client("Python", "confluent-kafka (librdkafka)", PYTHON, "confluent-kafka", "librdkafka"),
    Client("Python", "kafka-python", PYTHON, "kafka-python", "kafka_python"),
    Client("Python", "aiokafka", PYTHON, "aiokafka", "aio", {"groups": ("removed",)}),
    Client("JavaScript", "KafkaJS", NPM, "kafkajs", "kafkajs"),
    Client("JavaScript", "@platformatic/kafka", NPM, "@platformatic/kafka", "platformatic"),
    Client("Go", "franz-go", GO, "github.com/twmb/franz-go", ""),
)
JAVA = Client("Java", "Kafka's own", MAVEN, "kafka.version", "")
