"""Our own linter, for rules that no other linter has. Each rule takes text and returns complaints.

`tests/test_house_rules.py` checks the repository against every rule, and that each rule detects a
violation. A list of exceptions may only shrink: an unneeded entry is a complaint, too.
"""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import tokenize
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: The folders of the two distributions.
SOURCES = ("src/", "simulator/src/")
#: Characters of a docstring's first line, and of a test's name.
MAX_SUMMARY = 100
MAX_TEST_NAME = 70
#: Files that may import each other in a circle.
MAX_CIRCLE = 3

#: These two files contain the banned texts.
RULE_FILES = frozenset({"tests/house_rules.py", "tests/test_house_rules.py"})

#: Patterns of unused names in src, and the reason to keep them.
UNUSED: dict[str, str] = {
    "src/kraftlog/__init__.py:*": "Python calls it for missing names of a module",
    "src/kraftlog/wire/messages/*Re[qs]*": "requests and responses are found by the API's name",
    "src/kraftlog/wire/messages/*_records.py:*": "records are found by their type",
}

#: Our former names for things that have a name in Kafka, Raft or Python.
PRIVATE_WORDS = frozenset(
    {
        "anew",
        "commitwait",
        "coordinating",
        "desk",
        "errands",
        "frail",
        "gathered",
        "governing",
        "occasion",
        "openings",
        "ownrecord",
        "passedon",
        "patience_ms",
        "peeranswered",
        "peersilent",
        "peerunaware",
        "peervanished",
        "quorumhands",
        "saying",
        "setothersaside",
        "snapping",
        "stirred",
        "talking",
        "telling",
        "topicpieces",
        "upkeep",
        "whoever",
    }
)

WORKPLACE = re.compile(
    r"\bissues? #\d|\b(?:this|my|next|last|previous|earlier) (?:agent )?session\b|\bthe brief\b"
    r"|\bsub-?agents?\b|\b(?:other|another) helpers?\b"
    r"|\bclaude\b|\banthropic\b|\bchatgpt\b|\bLLM\b",
    re.IGNORECASE,
)
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|root|home|Users)/")
REGISTRY_HOST = re.compile(
    r"pypi\.org|pythonhosted\.org|repo1?\.maven|crates\.io|npmjs\.(?:org|com)|\bdeb\.debian\.org"
    r"|proxy\.golang\.org",
    re.IGNORECASE,
)
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
HIDDEN_SKIP = re.compile(r"\bimportorskip\b|\ballow_module_level\b")
STRAY_FILE = re.compile(
    r"(^|/)(?:[^/]+\.lock|package-lock\.json|\.DS_Store|[^/]+\.egg-info|[^/]+\.log"
    r"|[^/]+\.(?:orig|rej|pyc|class|jar|swp|bak))(/|$)"
)
WAIVER = re.compile(r"#\s*(?:type:\s*ignore|noqa\b|pragma:)")
REASONED_WAIVER = re.compile(
    r"#\s*(?:type: ignore\[[\w, -]+\]|noqa: [A-Z]+\d+(?:, ?[A-Z]+\d+)*|pragma: [\w ]+)"
    r"\s+(?:-|#) ?\w"
)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def repository() -> dict[str, str]:
    """Every text file that is in the repository or will be."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    files = {}
    for path in sorted(set(os.fsdecode(listed.stdout).split("\0")) - {""}):
        try:
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                files[path] = file.read()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue  # binary, or deleted and not yet committed
    return files


def banned(pattern: re.Pattern[str], files: dict[str, str]) -> Iterator[str]:
    """Where the pattern matches, once per line: path, line number and text."""
    for path, text in files.items():
        if path in RULE_FILES or not pattern.search(text):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := pattern.search(line):
                yield f"{path}:{number}: {match[0]!r}"


def stray_files(paths: Iterable[str]) -> Iterator[str]:
    """Files that a tool writes for one machine."""
    return (path for path in paths if STRAY_FILE.search(path))


def long_summaries(files: dict[str, str]) -> Iterator[str]:
    """Docstrings whose first line is too long for an index."""
    for path, tree in _trees(files, ""):
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                summary = (ast.get_docstring(node) or "").partition("\n")[0]
                if len(summary) > MAX_SUMMARY:
                    yield f"{path}: {summary!r} has {len(summary)} characters"


def long_test_names(files: dict[str, str]) -> Iterator[str]:
    for path, tree in _trees(files, "tests/"):
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                continue
            if len(node.name) > MAX_TEST_NAME:
                yield f"{path}: {node.name} has {len(node.name)} characters"


def partition_writes(files: dict[str, str]) -> Iterator[str]:
    """Assignments to fields of a `Partition` outside `replication`."""
    own_folder = "src/kraftlog/replication/"
    fields = _slots(ast.parse(files[f"{own_folder}partition.py"]), "Partition")
    for path, tree in _trees(files, SOURCES):
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store | ast.Del)
                and node.attr in fields
                and re.search(r"\bpartition$", ast.unparse(node.value))
                and not path.startswith(own_folder)
            ):
                yield f"{path}:{node.lineno}: {ast.unparse(node)}"


def _slots(tree: ast.Module, name: str) -> set[str]:
    [body] = [n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name]
    [slots] = [n.value for n in body if ast.unparse(n).startswith("__slots__")]  # type: ignore[attr-defined]  # an assignment
    return set(ast.literal_eval(slots))


def private_words(files: dict[str, str]) -> Iterator[str]:
    """Former names in modules, classes, functions and parameters."""
    for path, tree in _trees(files, SOURCES):
        names = {os.path.basename(path).removesuffix(".py")}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
        for name in sorted(names):
            words = {name.lower(), *name.lower().split("_")}
            if words & PRIVATE_WORDS:
                yield f"{path}: {name}"


def import_circles(files: dict[str, str]) -> Iterator[str]:
    """Circles of too many files, and circles that leave a folder and come back to it.

    Imports for type checkers count: files that know each other's types are read together.
    """
    imports = _imports(files)
    for circle in _circles(imports):
        if len(circle) > MAX_CIRCLE:
            yield f"a circle of {len(circle)} files: {', '.join(sorted(circle))}"
    for folder in sorted({module.rpartition(".")[0] for module in imports}):
        siblings: dict[str, set[str]] = {}
        for module, imported in imports.items():
            if inside := _child_of(folder, module):
                others = {_child_of(folder, other) for other in imported} - {"", inside}
                siblings.setdefault(inside, set()).update(others)
        for circle in _circles(siblings):
            if any(child not in imports for child in circle):
                yield f"a circle of folders: {', '.join(sorted(circle))}"


def import_circles_of_source() -> set[frozenset[str]]:
    """All circles of files of the product and the simulator, with imports for type checkers."""
    return _circles(_imports(repository()))


def _imports(files: dict[str, str]) -> dict[str, set[str]]:
    """The modules that each module of the product imports; a package is `package.__init__`."""
    modules = {
        path.rpartition("src/")[2].removesuffix(".py").replace("/", "."): tree
        for path, tree in _trees(files, SOURCES)
    }
    imports = {}
    for module, tree in modules.items():
        imported = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    name = f"{node.module}.{alias.name}"
                    candidates = (name, f"{name}.__init__", node.module, f"{node.module}.__init__")
                    imported.update([each for each in candidates if each in modules][:1])
        imports[module] = imported - {module}
    return imports


def _child_of(folder: str, module: str) -> str:
    """The file or folder within `folder` that the module is, or is in; empty if outside."""
    if not module.startswith(f"{folder}."):
        return ""
    return f"{folder}.{module[len(folder) + 1 :].partition('.')[0]}"


def _circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Each set of nodes that reach each other by edges of the graph."""
    reached = {node: _reached(graph, node) for node in graph}
    circles = {
        frozenset(other for other in others if node in reached.get(other, ()))
        for node, others in reached.items()
    }
    return {circle for circle in circles if len(circle) > 1}


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        for node in graph.get(waiting.pop(), ()):
            if node not in reached:
                reached.add(node)
                waiting.append(node)
    return reached


def bare_waivers(files: dict[str, str]) -> Iterator[str]:
    """Waivers without a code or without a reason."""
    for path, text in files.items():
        # Tokens take long, and are needed only to tell a comment from a string.
        if path.endswith(".py") and any(map(_may_be_bare, text.splitlines())):
            for token in _tokens(text):
                is_comment = token.type == tokenize.COMMENT
                waives = is_comment and WAIVER.search(token.string)
                if waives and not REASONED_WAIVER.search(token.string):
                    yield f"{path}:{token.start[0]}: {token.string}"


def _may_be_bare(line: str) -> bool:
    return any(not REASONED_WAIVER.match(line, waiver.start()) for waiver in WAIVER.finditer(line))


def unused_names(files: dict[str, str], allowed: dict[str, str]) -> Iterator[str]:
    """Functions and classes of the product without any use, even in tests."""
    mentioned = set(_IDENTIFIER.findall(files.get("pyproject.toml", "")))
    for _, tree in _trees(files, ""):
        mentioned.update(_mentions(tree))
    unused = {
        f"{path}:{node.name}"
        for path, tree in _trees(files, SOURCES)
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.name not in mentioned
    }
    excused = {name for name in unused if any(fnmatchcase(name, entry) for entry in allowed)}
    yield from sorted(f"{name} is used nowhere" for name in unused - excused)
    for entry, reason in allowed.items():
        if not any(fnmatchcase(name, entry) for name in unused):
            yield f"{entry} fits nothing that is unused: take it off the list"
        if not reason:
            yield f"{entry} is on the list without a reason"


_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def _mentions(tree: ast.Module) -> Iterator[str]:
    """Names in code and in strings (some code is generated), but not in docstrings."""
    docstrings = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield from _IDENTIFIER.findall(str(node.value))


def _docstrings(tree: ast.Module) -> set[int]:
    statements = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    return {id(value) for value in statements if isinstance(value, ast.Constant)}


def modules_without_docstring(files: dict[str, str]) -> Iterator[str]:
    for path, tree in _trees(files, "tests/"):
        is_test = os.path.basename(path).startswith("test_")
        if is_test and not ast.get_docstring(tree):
            yield f"{path} does not say what it tests"


def broken_links(files: dict[str, str], exists: Iterable[str]) -> Iterator[str]:
    """Links of Markdown files to missing files or headings."""
    known = set(exists)
    for path, text in files.items():
        if not path.endswith(".md"):
            continue
        for target in LINK.findall(_without_code(text)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, heading = target.partition("#")
            file = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            is_folder = any(p.startswith(f"{file}/") for p in known)
            if file not in known and not is_folder:
                yield f"{path}: no file {target}"
            elif heading and file in files and heading not in _headings(files[file]):
                yield f"{path}: no heading {target}"


def _without_code(text: str) -> str:
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def _headings(text: str) -> set[str]:
    """The anchors of the headings."""
    titles = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _trees(
    files: dict[str, str], folders: str | tuple[str, ...]
) -> Iterator[tuple[str, ast.Module]]:
    for path, text in files.items():
        if path.startswith(folders) and path.endswith(".py"):
            yield path, parsed(text)


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(text).readline)
