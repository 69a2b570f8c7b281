"""What all pipelines share: options, exit codes, errors, signals, and the Spark session.

A pipeline looks like this:

def run(arguments):
    options = parser("archive", "…", "orders --to lake").parse_args(arguments)
    return run_pipeline("archive", options, lambda pipeline: …)
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import cached_property
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from kraftlog.client.command_parser import CommandParser, servers
from kraftlog.client.properties import (
    DEFAULT_SERVER,
    client_by,
    read_properties,
)
from kraftlog.errors import EndpointTypeError
from kraftlog.spark.option_names import SINK, SOURCE
from kraftlog.spark.pipelines import jvm, quiet
from kraftlog.spark.pipelines.errors import UsageError, paragraph
from kraftlog.spark.pipelines.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from kraftlog.client.client import Client

#: Exit codes of all pipelines, for cron and scripts (docs/use/spark-running.md#exit-codes).
DONE, FAILED, USAGE, FINDINGS, INTERRUPTED = 0, 1, 2, 3, 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: How often the progress of a job is read from Spark.
_POLL_S = 0.2
#: How long to wait until Spark has stopped a query or the session.
_STOP_TIMEOUT_S = 20


def parser(
    name: str,
    description: str,
    example: str,
    *,
    connects: bool = True,
    uses_spark: bool = True,
) -> argparse.ArgumentParser:
    """A parser with the options that pipelines share: for cluster, Spark and output."""
    command_line = CommandParser(
        prog=f"kraftlog pipeline {name}",
        description=description,
        epilog=f"example: kraftlog pipeline {name} {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if connects:
        group = command_line.add_argument_group("cluster")
        group.add_argument(
            *("-b", "--bootstrap-server"),
            type=servers,
            default=DEFAULT_SERVER,
            metavar="HOST:PORT,...",
            help=f"brokers to bootstrap from; default: {DEFAULT_SERVER}",
        )
        group.add_argument("-c", "--command-config", metavar="FILE", help="client properties file")
    if uses_spark:
        group = command_line.add_argument_group("Spark")
        group.add_argument(
            "--master",
            default="local[*]",
            metavar="URL",
            help="where to run, such as local[2] or spark://host:7077; default: local[*], "
            "all cores of this machine",
        )
        group.add_argument(
            "--conf",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="a Spark property; repeatable",
        )
    else:
        command_line.set_defaults(conf=[])
    group = command_line.add_argument_group("output")
    group.add_argument("--dry-run", action="store_true", help="only print what would be done")
    group.add_argument("--json", action="store_true", help="print a JSON object per line")
    group.add_argument(
        "-v", "--verbose", action="store_true", help="print Spark's log and whole stack traces"
    )
    return command_line


Result = TypeVar("Result")


class Pipeline:
    """One run of a pipeline: its options, its progress, and a Spark session, made on first use."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.options = options
        self.progress = Progress(name, is_json=options.json)
        self._name = name
        self._owns_session = False

    @cached_property
    def settings(self) -> dict[str, str]:
        """The Spark properties of --conf."""
        pairs = [(text, *text.partition("=")) for text in self.options.conf]
        for text, key, equals, _ in pairs:
            if not (key and equals):
                raise UsageError(f"--conf {text}: expected KEY=VALUE")
        return {key: value for _, key, _, value in pairs}

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """The properties of --command-config."""
        return read_properties(self.options.command_config)

    @property
    def source_options(self) -> dict[str, str]:
        """The cluster's options for the source and the sink.

        Properties that neither uses are left out, as they would be printed; the client may use
        them.
        """
        given = {f"kafka.{key}": value for key, value in self.properties.items()}
        ignored = SOURCE.ignored(given).keys() & SINK.ignored(given).keys()
        client_options = {name: value for name, value in given.items() if name not in ignored}
        return {**client_options, "kafka.bootstrap.servers": self.options.bootstrap_server}

    def client(self) -> Client:
        """A new client of the cluster, to be closed or used in a with statement."""
        return client_by(self.properties, self.options.bootstrap_server)

    @cached_property
    def spark(self) -> SparkSession:
        """The active session of this process, or a new one."""
        active = SparkSession.getActiveSession()
        if active is not None:
            return active
        self.progress.say(f"starting Spark on {self.options.master}")
        session = quiet.start_spark(
            f"kraftlog {self._name}", self.options.master, self.settings, self.options.verbose
        )
        self._owns_session = True
        if not self.options.verbose:
            jvm.silence(session)
        _catch_signals()  # Spark has set a handler of its own
        return session

    def run_job(self, action: Callable[[], Result], *, items: int, unit: str = "rows") -> Result:
        """Run a job of Spark; show its progress by completed tasks, as a share of `items`."""
        context = self.spark.sparkContext
        tracker = context.statusTracker()
        other_stages = {*tracker.getActiveStageIds()}
        outcome: Future[Result] = Future()
        self.progress.begin()

        def work() -> None:
            try:
                outcome.set_result(action())
            except BaseException as error:
                outcome.set_exception(error)

        InheritableThread(target=work, session=self.spark, daemon=True).start()
        done = 0
        while not wait([outcome], _POLL_S).done:
            for stage in map(tracker.getStageInfo, {*tracker.getActiveStageIds()} - other_stages):
                if stage is not None and stage.numTasks:
                    done = max(done, items * stage.numCompletedTasks // stage.numTasks)
            self.progress.show(done, total=items, unit=unit)
        result = outcome.result()
        self.progress.show(items, total=items, unit=unit)
        return result

    def close(self) -> None:
        if self._owns_session:
            stop_in_thread(self.spark.stop)


def stop_in_thread(stop: Callable[[], object]) -> None:
    """Stop a query or a session from another thread, which has its own connection to the JVM.

    The main thread's connection may still receive the response of a call that was interrupted.
    """

    def run() -> None:
        with suppress(Exception):  # it has stopped already
            stop()

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(_STOP_TIMEOUT_S)


def run_pipeline(
    name: str, options: argparse.Namespace, work: Callable[[Pipeline], int | None]
) -> int:
    """Run a pipeline and return its exit code; an error is printed as one paragraph."""
    old_handlers: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}
    _catch_signals()
    pipeline = Pipeline(name, options)
    try:
        _ = pipeline.settings  # invalid settings are reported before any work
        return work(pipeline) or DONE
    except UsageError as error:
        _print_error(name, f"{error}; see --help")
        return USAGE
    except KeyboardInterrupt:
        _print_error(name, "interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except EndpointTypeError as error:
        has_controller_option = hasattr(options, "bootstrap_controller")
        advice = error.advice(has_controller_option=has_controller_option)
        _print_error(name, f"{error}: {advice}")
        return FAILED
    except Exception as error:
        if options.verbose:
            raise
        _print_error(name, jvm.how_it_ended(error) or paragraph(error))
        return FAILED
    finally:
        pipeline.progress.end()
        pipeline.close()
        logging.disable(logging.NOTSET)
        _catch_signals(old_handlers)


def _catch_signals(handlers: Mapping[int, Any] | None = None) -> None:
    """Let Ctrl-C and SIGTERM interrupt the pipeline, or restore these handlers."""
    for number in SIGNALS:
        with suppress(ValueError):  # only the main thread may set handlers
            signal.signal(number, _interrupt if handlers is None else handlers[number])


def _interrupt(*_: object) -> None:
    logging.disable()  # py4j would log the stack of the interrupted call
    raise KeyboardInterrupt


def _print_error(name: str, text: str) -> None:
    print(f"kraftlog pipeline {name}: {text}", file=sys.stderr, flush=True)
