"""Coverage-guided fuzzing of every decoder.

    python -m tests.fuzz --minutes 5

The first two bytes of an input choose the message type and version, the rest is the message. An
input passes if the compiled reader and `read_slowly` agree (`assert_readers_agree`). Failing inputs
are written to tests/wire/corpus, where an ordinary test reads them; inputs that reach new code are
kept in .cache/fuzz for the next run.
"""

from __future__ import annotations

import argparse
import os
import sys
from random import Random

import atheris

with atheris.instrument_imports(include=["kraftlog.wire"]):
    from kraftlog.wire import codec, compiler, explain, primitives  # noqa: F401 - instrumented

from tests.wire.readers_agree import VERSIONS, assert_readers_agree, choose_message
from tests.wire.samples import Sampler

HERE = os.path.dirname(os.path.abspath(__file__))
FAILING_INPUTS = os.path.join(HERE, "wire", "corpus")
NEW_CODE_INPUTS = os.path.join(os.path.dirname(HERE), ".cache", "fuzz")
LONGEST_INPUT = 300


def fuzz_one(data: bytes) -> None:
    cls, version, raw = choose_message(data)
    if (cls, version) not in codec._readers:
        read = compiler.compile_reader(cls, version)
        codec._readers[cls, version] = atheris.instrument_func(read)
    assert_readers_agree(cls, version, raw)


def write_seeds() -> None:
    """Write a valid message of every type and version, from which the fuzzer starts."""
    os.makedirs(NEW_CODE_INPUTS, exist_ok=True)
    for index, (cls, version) in enumerate(VERSIONS):
        random = Random(f"{cls.__name__}{version}")
        message = Sampler(random, small=True, own_tags=True).message(cls, version)
        with open(os.path.join(NEW_CODE_INPUTS, f"seed-{cls.__name__}-{version}"), "wb") as file:
            file.write(index.to_bytes(2, "big") + codec.encode(message, version))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=5)
    minutes = parser.parse_args().minutes
    write_seeds()
    options = [
        f"-max_total_time={int(minutes * 60)}",
        f"-max_len={LONGEST_INPUT}",
        f"-artifact_prefix={FAILING_INPUTS}{os.sep}",
        "-use_value_profile=1",
        "-print_final_stats=1",
        "-verbosity=1",
    ]
    atheris.Setup([sys.argv[0], *options, NEW_CODE_INPUTS, FAILING_INPUTS], fuzz_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
