"""A standalone cluster of Apache Spark on this machine: a master and workers of PySpark."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from queue import Empty, Queue
from typing import TYPE_CHECKING

from kraftlog.spark.java import java_home
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

_DEPLOY = "org.apache.spark.deploy"
#: For short runs: a quick compiler without optimisations, and a simple garbage collector.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master (\S+)")


class Daemon:
    """The process of a master or a worker of Spark, whose log can be awaited."""

    def __init__(self, words: list[str], environment: Mapping[str, str]) -> None:
        import pyspark

        script = os.path.join(os.path.dirname(pyspark.__file__), "bin", "spark-class")
        self._process = subprocess.Popen(
            [script, *words],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.put(line)
        self._lines.put("")

    def wait_for(self, pattern: re.Pattern[str]) -> str:
        """Wait for a line of the log with this pattern; return its first group."""
        log = ""
        while line := self._next_line(log):
            log += line
            if match := pattern.search(line):
                return match[1]
        raise AssertionError(f"the process has ended:\n{log}")

    def _next_line(self, log: str) -> str:
        try:
            return self._lines.get(timeout=LIMIT_S)
        except Empty:
            raise AssertionError(f"no such line within {LIMIT_S} s:\n{log}") from None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        assert self._process.stderr is not None
        self._process.stderr.close()


class StandaloneCluster:
    """A master and workers of one core each, on free ports of loopback addresses.

    Each worker has an address of its own, as Spark speculates on another machine only.
    """

    def __init__(self, folder: str, *, workers: int, environment: Mapping[str, str]) -> None:
        self._environment = {
            **environment,
            "JAVA_HOME": java_home(),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
        }
        self._daemons: list[Daemon] = []
        try:
            self.url = self._start(f"{_DEPLOY}.master.Master").wait_for(_MASTER_URL)
            started = [
                self._start(
                    *(f"{_DEPLOY}.worker.Worker", "--cores", "1", "--memory", "700m"),
                    *("--work-dir", f"{folder}/worker-{number}", self.url),
                    host=f"127.0.0.{number + 1}",
                )
                for number in range(workers)
            ]
            for worker in started:
                assert worker.wait_for(_REGISTERED) == self.url
        except BaseException:
            self.close()
            raise

    def _start(self, main_class: str, *words: str, host: str = "127.0.0.1") -> Daemon:
        ports = ["--host", host, "--port", "0", "--webui-port", "0"]
        self._daemons.append(Daemon([main_class, *ports, *words], self._environment))
        return self._daemons[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.kill()
