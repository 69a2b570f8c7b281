"""The picture of the layers in docs/architecture.md is that of the import contract."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.house_rules import ROOT

#: Where the descriptions of the layers begin.
DESCRIPTIONS = 47


def test_the_picture_of_the_layers_is_that_of_the_contract() -> None:
    settings = tomllib.loads(Path(ROOT, "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [
        each for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == "layers"
    ]
    packages = Path(ROOT, "src", "kraftlog")
    layers = [
        {name for name in re.findall(r"\w+", layer) if list(packages.glob(f"{name}*"))}
        for layer in contract["layers"]
    ]
    page = Path(ROOT, "docs", "architecture.md").read_text(encoding="utf-8")
    picture = page.partition("## Layers\n")[2].split("```")[1]
    shown = [re.findall(r"\w+", line[:DESCRIPTIONS]) for line in picture.splitlines()]
    levels = [index for names in shown for name in names for index in _levels(name, layers)]
    assert sorted(name for names in shown for name in names) == sorted(set().union(*layers))
    assert levels == sorted(levels)


def _levels(name: str, layers: list[set[str]]) -> list[int]:
    return [index for index, layer in enumerate(layers) if name in layer]
