"""kcat, librdkafka's command-line client, is there to be used."""

from __future__ import annotations

import subprocess


def test_kcat_runs(kcat: str) -> None:
    shown = subprocess.run([kcat, "-V"], capture_output=True, text=True, check=True).stdout
    assert "librdkafka" in shown
