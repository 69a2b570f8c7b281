"""When and on which commit each section of the page was measured, and whether that is too old.

docs/generated/performance.json has the stamps; the page shows them. A trial keeps its own.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tests.interop.cache import CACHE, ROOT
from tests.interop.kafka_jars import kafka_version

from bench import page
from bench.beside import page as beside
from bench.beside.rows import TITLE as BESIDE
from bench.cluster import page as cluster
from bench.cluster.rows import TITLE as CLUSTER
from bench.sections import BY_NAME, PAGE_TITLES, SECTIONS
from kraftlog.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.sections import Section

STORE = os.path.join(os.path.dirname(page.PAGE), "performance.json")
TRIAL_STORE = os.path.join(CACHE, "bench", "trial", "performance.json")
#: How much older than its code a section may be.
MAX_AGE = timedelta(days=30)


@dataclass(frozen=True)
class Stamp:
    """A measurement: when it began, on which commit, release and machine, and how long it took.

    `commit` is empty if it is unknown, and ends with a plus if files were changed beside it.
    `kafka`: the release of Apache Kafka beside it, if any. `error`: why the attempt failed.
    """

    began: str
    commit: str = ""
    version: str = ""
    machine: str = ""
    seconds: float = 0
    kafka: str = ""
    error: str = ""

    @property
    def time(self) -> datetime:
        return datetime.fromisoformat(self.began).replace(tzinfo=UTC)


@dataclass(frozen=True)
class Code:
    """The code now: the time of the last commit that touched it, the release, and Kafka's."""

    changed: datetime | None
    version: str = VERSION
    kafka: str = ""


@dataclass
class Stamps:
    """The latest measurement of each section, and the attempt that has failed since."""

    path: str
    measured: dict[str, Stamp]
    failed: dict[str, Stamp]

    def record(self, name: str, stamp: Stamp) -> None:
        if stamp.error:
            self.failed[name] = stamp
        else:
            self.measured[name] = stamp
            self.failed.pop(name, None)

    def save(self) -> None:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        kinds = {"measured": self.measured, "failed": self.failed}
        text = {
            kind: {name: _brief(stamps[name]) for name in sorted(stamps)}
            for kind, stamps in kinds.items()
        }
        with open(f"{self.path}.new", "w", encoding="utf-8") as file:
            json.dump(text, file, indent=1)
            file.write("\n")
        os.replace(f"{self.path}.new", self.path)


def _brief(stamp: Stamp) -> dict[str, object]:
    return {key: value for key, value in asdict(stamp).items() if value}


def load(path: str) -> Stamps:
    if not os.path.exists(path):
        return Stamps(path, {}, {})
    with open(path, encoding="utf-8") as file:
        stored = json.load(file)
    measured, failed = (
        {name: Stamp(**stamp) for name, stamp in stored[kind].items()}
        for kind in ("measured", "failed")
    )
    return Stamps(path, measured, failed)


def store_of(*, is_full: bool) -> str:
    return STORE if is_full else TRIAL_STORE


def begin() -> Stamp:
    """The stamp of a measurement that begins now."""
    commit = _git("rev-parse", "--short=10", "HEAD")
    changed = _git("status", "--porcelain", "--", "src", "simulator", "bench")
    return Stamp(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
        f"{commit}+" if changed else commit,
        VERSION,
        machine(),
    )


def finish(name: str, stamp: Stamp, seconds: float, *, is_full: bool = True) -> None:
    """Store that a section has been measured; for the page, write that on the page as well."""
    stamps = load(store_of(is_full=is_full))
    kafka = kafka_version() if BY_NAME[name].with_kafka else ""
    stamps.record(name, replace(stamp, seconds=round(seconds), kafka=kafka))
    stamps.save()
    if is_full:
        write_stamps(stamps)


def write_stamps(stamps: Stamps, path: str = page.PAGE) -> None:
    """Put the sections of the page into order, and renew what they say about their measurement."""
    codes = {section.name: code_of(section) for section in SECTIONS}
    page.write_page(stamped(page.read_page(path), stamps, codes), path)


def stamped(text: str, stamps: Stamps, codes: Mapping[str, Code]) -> str:
    """The page with all its sections, in order, each with its measurement or the lack of one."""
    for title, section_text in (
        (BESIDE, beside.section_text),
        (CLUSTER, cluster.section_text),
    ):
        text = page.with_section(text, title, section_text({}, page.part(text, title, "##")))
    for section in SECTIONS:
        lines = list(stamp_lines(section, stamps, codes[section.name]))
        if is_main(section) and not page.part(text, section.titles[0], "##"):
            text = page.with_section(text, section.titles[0], unmeasured(section))
        for title in section.titles:
            text = page.with_stamp(text, title, lines)
    return page.in_order(text, PAGE_TITLES)


def is_main(section: Section) -> bool:
    """Whether it is a main section of the page, not a part of one."""
    return " " not in section.name


def unmeasured(section: Section) -> str:
    command = f"python -m bench {section.name}"
    return f"## {section.titles[0]} (`{command}`)\n\nNot measured: `{command}`.\n"


def stamp_lines(section: Section, stamps: Stamps, code: Code) -> Iterator[str]:
    """What the page says about the measurement of a section."""
    if stamp := stamps.measured.get(section.name):
        yield page.MEASURED + _measured_text(stamp)
        if reason := stale_reason(stamp, code):
            yield (
                f'{page.STALE}{reason}. `python -m bench night --again "{section.name}"` '
                "measures it again.**"
            )
    if stamp := stamps.failed.get(section.name):
        at = f" at commit {stamp.commit}" if stamp.commit else ""
        yield f"{page.FAILED}on {stamp.began[:10]}{at} failed: {stamp.error}**"


def _measured_text(stamp: Stamp) -> str:
    commit = f"commit {stamp.commit}" if stamp.commit else "a commit that was not recorded"
    words = [f"{stamp.began[:10]} at {commit}"]
    if stamp.version:
        words[0] += f" (version {stamp.version})"
    words[0] += f", in {duration_text(stamp.seconds)}" if stamp.seconds else ""
    words += [stamp.machine] if stamp.machine else []
    words += [f"Apache Kafka {stamp.kafka}"] if stamp.kafka else []
    return "; ".join(words) + "."


def stale_reason(stamp: Stamp, code: Code) -> str:
    """Why a section is too old for its code; empty if it is not.

    It is if its code has changed more than `MAX_AGE` after it, or at all since an earlier minor
    release, or if another release of Kafka is the reference now.
    """
    if stamp.kafka and code.kafka and stamp.kafka != code.kafka:
        return f"measured beside Apache Kafka {stamp.kafka}, and {code.kafka} is the reference now"
    if code.changed is None or code.changed <= stamp.time:
        return ""
    if minor(stamp.version) != minor(code.version):
        return (
            f"its code has changed since version {stamp.version or 'unknown'}, "
            f"and this is version {code.version}"
        )
    age = code.changed - stamp.time
    if age > MAX_AGE:
        return f"its code was changed {age.days} days later, on {code.changed:%Y-%m-%d}"
    return ""


def minor(version: str) -> tuple[str, ...]:
    return tuple(version.split(".")[:2])


def has_changed(stamp: Stamp, code: Code) -> bool:
    """Whether the code has been changed at all since."""
    return code.changed is not None and code.changed > stamp.time


def code_of(section: Section) -> Code:
    """The code that a section measures, by the last commit that touched its paths."""
    text = _git("log", "-1", "--format=%cI", "--", *section.paths)
    changed = datetime.fromisoformat(text).astimezone(UTC) if text else None
    return Code(changed, kafka=kafka_version() if section.with_kafka else "")


def _git(*words: str) -> str:
    """The output of a command of git; empty where there is no repository."""
    try:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def machine() -> str:
    processor = platform.machine()
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    return (
        f"{processor}, {os.cpu_count()} cores, Linux {platform.release()}, "
        f"Python {platform.python_version()}"
    )


def duration_text(seconds: float) -> str:
    """A duration for people: `40 s`, `12 min`, `3 h 5 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
