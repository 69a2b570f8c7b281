"""Starts Spark for a pipeline: without its log and UI, and on loopback if it runs locally."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kraftlog.errors import ConfigError
from kraftlog.spark.java import java_home
from kraftlog.spark.worker_python import choose_python
from kraftlog.spark.worker_sockets import socket_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # How long a new Python process has to identify itself: on a busy machine longer than 15 s.
    "spark.python.authenticate.socketTimeout": "300s",
}


def spark_session(
    name: str, *, master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with the source and sink `kraftlog`; `settings` override the defaults."""
    if find_spec("pyspark") is None:
        raise ConfigError(
            "Spark is not installed: install kraftlog from its clone with pip install '.[spark]'"
        )
    os.environ["JAVA_HOME"] = java_home()
    is_local = master.startswith("local")
    choose_python(is_local=is_local)
    defaults = _DEFAULTS
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        defaults = _DEFAULTS | socket_settings()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**defaults, **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
