"""Reads a regular expression as re2j 1.8 does, and refuses it with the same description.

Not read are flags that make no difference: `s` and `m`, because topic names have one line, and
`U`, because a name is matched as a whole.
"""

from __future__ import annotations

from kraftlog.groups.subscription_regex.classes import (
    ANY,
    PERL_CLASSES,
    posix_class,
    range_mask,
    unicode_class,
)
from kraftlog.groups.subscription_regex.syntax import (
    BEGIN,
    BOUNDARY,
    END,
    MAX_CHARACTERS,
    MAX_DEPTH,
    NO_BOUNDARY,
    Node,
    PatternError,
    alternate,
    assertion,
    characters,
    concat,
    repeat,
)

INVALID_RANGE = "invalid character class range"
INVALID_ESCAPE = "invalid escape sequence"
INVALID_NAME = "invalid named capture"
DUPLICATE_NAME = "duplicate capture group name"
INVALID_GROUP = "invalid or unsupported Perl syntax"
NESTED_REPETITION = "invalid nested repetition operator"
INVALID_COUNT = "invalid repeat count"
NOTHING_TO_REPEAT = "missing argument to repetition operator"
MISSING_BRACKET = "missing closing ]"
MISSING_PARENTHESIS = "missing closing )"
UNEXPECTED_PARENTHESIS = "regexp/syntax: internal error"
TRAILING_BACKSLASH = "trailing backslash at end of expression"

_REPETITIONS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_ASSERTIONS = {"A": BEGIN, "z": END, "b": BOUNDARY, "B": NO_BOUNDARY}
_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_DOT = ANY ^ 1 << ord("\n")
MOST_REPETITIONS = 1000
_ALPHANUMERIC = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_OCTAL, _DECIMAL = frozenset("01234567"), frozenset("0123456789")
_HEXADECIMAL = {digit: int(digit, 16) for digit in "0123456789abcdefABCDEF"}
#: The nodes of characters that stand for themselves, unless case is ignored.
_LITERALS = {char: characters(1 << ord(char)) for char in (*_ALPHANUMERIC, *"-_/:,")}


def parse(text: str) -> Node:
    """The tree of an expression; PatternError if it is not valid."""
    if len(text) > MAX_CHARACTERS:
        raise PatternError(
            f"expression has {len(text)} characters, at most {MAX_CHARACTERS} are supported"
        )
    return _Parser(text).parse()


class _Group:
    """A group that is open: its alternatives so far, and the parts of the present one."""

    __slots__ = ("alternatives", "fold_outside", "parts")

    def __init__(self, fold_outside: bool) -> None:
        self.alternatives: list[Node] = []
        self.parts: list[Node] = []
        self.fold_outside = fold_outside

    def end_alternative(self) -> None:
        self.alternatives.append(concat(self.parts))
        self.parts = []


class _Parser:
    __slots__ = ("_at", "_fold", "_groups", "_last_name_end", "_names", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        #: Where the last `[:name:]` may end; without it, each `[:` would search the whole rest.
        self._last_name_end = text.rfind(":]")
        #: Whether case is ignored, flag `i`.
        self._fold = False
        self._groups = [_Group(False)]
        self._names: set[str] = set()

    def parse(self) -> Node:
        after_repetition = False
        text = self._text
        while self._at < len(text):
            literal = _LITERALS.get(text[self._at])
            if literal is not None and not self._fold:
                self._groups[-1].parts.append(literal)
                self._at += 1
                after_repetition = False
                continue
            is_brace = text[self._at] == "{"
            repetition = self._repetition()
            if repetition is None:
                self._part()
            else:
                self._repeat(repetition, after_repetition)
            # re2j takes even a brace that is literal for a repetition here.
            after_repetition = is_brace or repetition is not None
        if len(self._groups) > 1:
            raise PatternError(MISSING_PARENTHESIS)
        return self._closed(self._groups[0])

    def _part(self) -> None:
        char = self._text[self._at]
        self._at += 1
        parts = self._groups[-1].parts
        if char == "(":
            self._open()
        elif char == ")":
            self._close()
        elif char == "|":
            self._groups[-1].end_alternative()
        elif char == "^":
            parts.append(assertion(BEGIN))
        elif char == "$":
            parts.append(assertion(END))
        elif char == ".":
            parts.append(characters(_DOT))
        elif char == "[":
            parts.append(characters(self._class()))
        elif char == "\\":
            self._escaped(parts)
        else:
            parts.append(self._literal(ord(char)))

    def _literal(self, code_point: int) -> Node:
        return characters(range_mask(code_point, code_point, self._fold))

    def _peek(self) -> str:
        """The next character; empty at the end."""
        return self._text[self._at : self._at + 1]

    # Repetitions

    def _repetition(self) -> tuple[int, int | None] | None:
        """Read a repetition, if there is one here; its least and most numbers."""
        char = self._text[self._at]
        if char in _REPETITIONS:
            self._at += 1
            return _REPETITIONS[char]
        return self._counted() if char == "{" else None

    def _counted(self) -> tuple[int, int | None] | None:
        """Read `{2}`, `{2,}` or `{2,5}`; anything else are literal characters."""
        start = self._at
        self._at += 1
        least_text = self._digits()
        has_comma = self._peek() == ","
        self._at += has_comma
        most_text = self._digits() if has_comma else least_text
        is_repetition = self._peek() == "}" and _is_number(least_text)
        if not is_repetition or not (_is_number(most_text) or (has_comma and not most_text)):
            self._at = start
            return None
        self._at += 1
        # The length is checked first, as int() refuses thousands of digits.
        if len(least_text) > 4 or len(most_text) > 4:
            raise PatternError(INVALID_COUNT)
        least, most = int(least_text), int(most_text) if most_text else None
        if max(least, most or 0) > MOST_REPETITIONS or (most is not None and most < least):
            raise PatternError(INVALID_COUNT)
        return least, most

    def _digits(self) -> str:
        start = self._at
        while self._peek() in _DECIMAL:
            self._at += 1
        return self._text[start : self._at]

    def _repeat(self, repetition: tuple[int, int | None], after_repetition: bool) -> None:
        if self._peek() == "?":
            self._at += 1  # Not greedy: the same names match.
        if after_repetition:
            raise PatternError(NESTED_REPETITION)
        parts = self._groups[-1].parts
        if not parts:
            raise PatternError(NOTHING_TO_REPEAT)
        parts[-1] = repeat(parts[-1], *repetition)

    # Groups

    def _open(self) -> None:
        """Read what follows `(`: perhaps a name, or flags, which may stand without a group."""
        rest = self._text[self._at : self._at + 3]
        fold = self._fold
        if rest.startswith(("?P<", "?<")):
            self._name(self._at + (3 if rest.startswith("?P<") else 2))
        elif rest.startswith("?") and self._flags():
            return
        if len(self._groups) > MAX_DEPTH:
            raise PatternError(f"expression has more than {MAX_DEPTH} groups within groups")
        self._groups.append(_Group(fold))

    def _name(self, start: int) -> None:
        end = self._text.find(">", start)
        name = self._text[start:end]
        if end < 0 or not name or not _ALPHANUMERIC.issuperset(name.replace("_", "")):
            raise PatternError(INVALID_NAME)
        if name in self._names:
            raise PatternError(DUPLICATE_NAME)
        self._names.add(name)
        self._at = end + 1

    def _flags(self) -> bool:
        """Read `?flags)` or `?flags:`; return whether it is the first, without a group."""
        self._at += 1
        fold, is_set, is_complete = self._fold, True, True
        while char := self._peek():
            self._at += 1
            if char == "i":
                fold = is_set
            elif char == "-" and is_set:
                is_set = is_complete = False
                continue
            elif char in "):" and is_complete:
                self._fold = fold
                return char == ")"
            elif char not in "msU":
                break
            is_complete = True
        raise PatternError(INVALID_GROUP)

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise PatternError(UNEXPECTED_PARENTHESIS)
        group = self._groups.pop()
        self._fold = group.fold_outside
        self._groups[-1].parts.append(self._closed(group))

    @staticmethod
    def _closed(group: _Group) -> Node:
        group.end_alternative()
        return alternate(group.alternatives)

    # Escapes

    def _escaped(self, parts: list[Node]) -> None:
        """Read what follows a backslash outside a class."""
        char = self._peek()
        if char in _ASSERTIONS and char:
            self._at += 1
            parts.append(assertion(_ASSERTIONS[char]))
        elif char == "Q":
            end = self._text.find("\\E", self._at)
            quoted = self._text[self._at + 1 : end if end >= 0 else None]
            parts += [self._literal(ord(each)) for each in quoted]
            self._at += len(quoted) + 3
        else:
            mask = self._class_escape()
            parts.append(self._literal(self._escape()) if mask is None else characters(mask))

    def _class_escape(self) -> int | None:
        """Read `d`, `p{Greek}` or such like after a backslash; None if there is none."""
        char = self._peek()
        if char in {"p", "P"}:
            self._at += 1
            return self._unicode_class(char == "P")
        mask = PERL_CLASSES.get(char)
        if mask is not None:
            self._at += 1
        return mask

    def _unicode_class(self, is_negative: bool) -> int:
        name = self._peek()
        self._at += 1
        if name == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise PatternError(INVALID_RANGE)
            name = self._text[self._at : end]
            self._at = end + 1
        if name.startswith("^"):
            is_negative = not is_negative
        mask = unicode_class(name.removeprefix("^"), self._fold)
        if mask is None:
            raise PatternError(INVALID_RANGE)
        return ANY ^ mask if is_negative else mask

    def _escape(self) -> int:
        """Read a character that is written with a backslash, after the backslash."""
        char = self._peek()
        if not char:
            raise PatternError(TRAILING_BACKSLASH)
        self._at += 1
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "x":
            return self._hexadecimal()
        if char == "0" or (char in _OCTAL and self._peek() in _OCTAL):
            return self._octal(char)
        if char in _ALPHANUMERIC:
            raise PatternError(INVALID_ESCAPE)
        return ord(char)

    def _octal(self, digits: str) -> int:
        while len(digits) < 3 and self._peek() in _OCTAL:
            digits += self._peek()
            self._at += 1
        return int(digits, 8)

    def _hexadecimal(self) -> int:
        if self._peek() == "{":
            end = self._text.find("}", self._at)
            digits = self._text[self._at + 1 : end] if end >= 0 else ""
            self._at = end + 1
        else:
            digits = self._text[self._at : self._at + 2]
            digits = digits if len(digits) == 2 else ""
            self._at += 2
        code_point = 0
        for digit in digits:
            code_point = code_point * 16 + _HEXADECIMAL.get(digit, 0x110000)
            if code_point > 0x10FFFF:
                raise PatternError(INVALID_ESCAPE)
        if not digits:
            raise PatternError(INVALID_ESCAPE)
        return code_point

    # Classes

    def _class(self) -> int:
        """Read a class after its `[`."""
        is_negative = self._peek() == "^"
        if is_negative:
            self._at += 1
        mask = 0
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            mask |= self._class_item()
        self._at += 1
        return ANY ^ mask if is_negative else mask

    def _class_item(self) -> int:
        text, at = self._text, self._at
        if text.startswith("[:", at) and at < self._last_name_end:
            end = text.find(":]", at)
            self._at = end + 2
            named = posix_class(text[at + 2 : end], self._fold)
            if named is None:
                raise PatternError(INVALID_RANGE)
            return named
        if text.startswith("\\", at):
            self._at += 1
            mask = self._class_escape()
            if mask is not None:
                return mask
            self._at = at
        low = high = self._class_character()
        if self._peek() == "-" and text[self._at + 1 : self._at + 2] != "]":
            self._at += 1
            high = self._class_character()
            if high < low:
                raise PatternError(INVALID_RANGE)
        return range_mask(low, high, self._fold)

    def _class_character(self) -> int:
        char = self._peek()
        if not char:
            raise PatternError(MISSING_BRACKET)
        self._at += 1
        return self._escape() if char == "\\" else ord(char)


def _is_number(digits: str) -> bool:
    """Whether re2j takes digits for a number: not if they begin with a zero."""
    return digits == "0" or digits[:1] not in {"", "0"}
