"""Coverage-guided fuzzing of all that a node reads of strangers before and while they log in.

    python -m tests.fuzz_logins --minutes 5

SASL messages of every mechanism, tokens and their keys, certificates, and what properties say about
logins. An input passes if it is refused with the error that is meant for it (`assert_refused`).
Failing inputs are written to tests/sasl/corpus, where an ordinary test reads them.
"""

from __future__ import annotations

import argparse
import os
import sys

import atheris

with atheris.instrument_imports(include=["kraftlog.sasl", "kraftlog.tls"]):
    import kraftlog.sasl.accept
    import kraftlog.sasl.jaas
    import kraftlog.sasl.jwt
    import kraftlog.tls.certificates  # noqa: F401 - instrumented

from tests.sasl.any_input import NAMES, assert_refused
from tests.sasl.test_corpus import CORPUS, EXAMPLES

NEW_CODE_INPUTS = os.path.join(os.path.dirname(CORPUS), "..", "..", ".cache", "fuzz-logins")
LONGEST_INPUT = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=5)
    minutes = parser.parse_args().minutes
    os.makedirs(NEW_CODE_INPUTS, exist_ok=True)
    for number, (name, data) in enumerate(EXAMPLES):
        with open(os.path.join(NEW_CODE_INPUTS, f"seed-{number}"), "wb") as file:
            file.write(bytes([NAMES.index(name)]) + data)
    options = [
        f"-max_total_time={int(minutes * 60)}",
        f"-max_len={LONGEST_INPUT}",
        f"-artifact_prefix={CORPUS}{os.sep}",
        "-use_value_profile=1",
        "-print_final_stats=1",
        "-verbosity=1",
    ]
    atheris.Setup([sys.argv[0], *options, NEW_CODE_INPUTS, CORPUS], assert_refused)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
