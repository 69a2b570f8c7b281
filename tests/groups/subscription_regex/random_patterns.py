"""Random regular expressions, and names that have a chance to match them."""

from __future__ import annotations

from random import Random

LETTERS = "abcABk-_.19"
ATOMS = (
    *("a", "b", "c", "k", "s", "A", "-", "_", "\\.", ".", "1", "ab", "ä", "\U0001f600", " ", "/"),
    *("[ab]", "[^a]", "[a-c]", "[^a-z_]", "[a-cA-C0-9]", "[-a]", "[a-]", "[]a]", "[^]a]", "[.]"),
    *("[[:alpha:]]", "[[:^upper:]b]", "[[:word:]-]", "[[:lower:]]", "[[:upper:]]", "[[:punct:]]"),
    *("\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "[\\d_]", "[\\W]", "[^\\w.]"),
    *("\\pL", "\\PL", "\\p{Lu}", "\\p{Ll}", "\\p{^Ll}", "\\P{Nd}", "[\\p{Pd}\\p{Pc}]", "\\pP"),
    *("\\p{Latin}", "\\p{Greek}", "\\P{Greek}", "\\p{Any}", "\\p{Common}", "[^\\p{Lu}]", "\\p{Z}"),
    *("\\x61", "\\x{61}", "\\x{212a}", "\\x{17f}", "\\141", "\\060", "\\0", "\\n", "\\-", "\\/"),
    *("[\\x61-\\x{63}]", "[\\x{100}-\\x{400}]", "[\\x{2000}-\\x{2fff}]"),
    *("[^\\x{0}-\\x{10ffff}]", "\\Qa.b\\E", "\\Q\\E"),
    *("^", "$", "\\A", "\\z", "\\b", "\\B", "{", "}", "{,2}", "{a}", "]", ",", ":"),
)
GROUPS = (
    *("({})", "({})", "(?:{})", "(?i:{})", "(?i-i:{})", "(?-i:{})", "(?s:{})", "(?mU:{})"),
    *("(?P<n{n}>{})", "(?<n{n}>{})", "(?i){}", "(?-i){}", "(|{})", "({}|)", "(?){}"),
)
REPETITIONS = ("*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0}", "{1,}", "{0,3}?", "{2,}")
#: Pieces that are wrong, most of them.
NOISE = (
    *("(", ")", "[", "|", "**", "*", "+", "?", "{2}{3}", "{2,1}", "{1001}", "{1,1001}", "{99999}"),
    *("{123456789}", "{01}", "{1,02}", "(?", "(?P<", "(?P<n>", "(?P<n1>a)", "(?<a b>c)", "(?=a)"),
    *("(?!a)", "(?<=a)", "(?<!a)", "(?P=n)", "(?x)", "(?-)", "(?i-)", "(?i--s)", "(?z)", "(?#c)"),
    *(
        "\\",
        "\\8",
        "\\1",
        "\\12",
        "\\C",
        "\\Z",
        "\\G",
        "\\E",
        "\\Q",
        "\\x",
        "\\x6",
        "\\x{",
        "\\xg1",
    ),
    *(
        "\\x{}",
        "\\x{110000}",
        "\\x{g}",
        "\\p",
        "\\p{",
        "\\p{X}",
        "\\pX",
        "\\p{Foo}",
        "\\p{}",
        "\\u",
    ),
    *(
        "[a",
        "[]",
        "[^]",
        "[b-a]",
        "[a-\\d]",
        "[[:foo:]]",
        "[[:alpha:",
        "[[:]",
        "[\\",
        "[a-",
        "[\\Q]",
    ),
    *(
        "[\\b]",
        "[\\pX]",
        "[z-a]",
        "[--a]",
        "[[=a=]]",
        "(?<n>a)(?P<n>b)",
        "a|*",
        "|",
        "||",
        "()",
        "(?:)",
    ),
)


class RandomPatterns:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._names = 0

    def pattern(self) -> str:
        text = self._alternatives(self._rng.randint(0, 3))
        # re2j never returns from a range with U+1C80 in it if case is ignored.
        if "-\\x{" not in text and self._rng.random() < 0.25:
            at = self._rng.randint(0, len(text))
            text = text[:at] + self._rng.choice(NOISE) + text[at:]
        return text

    def names(self, count: int) -> list[str]:
        size = self._rng.choice((2, 4, 8))
        return ["", *[self._name(size) for _ in range(count)]]

    def _name(self, size: int) -> str:
        return "".join(self._rng.choices(LETTERS, k=self._rng.randint(1, size)))

    def _alternatives(self, depth: int) -> str:
        count = self._rng.choice((1, 1, 1, 2, 3))
        return "|".join([self._sequence(depth) for _ in range(count)])

    def _sequence(self, depth: int) -> str:
        count = self._rng.choice((0, 1, 1, 2, 2, 3))
        return "".join([self._repeated(depth) for _ in range(count)])

    def _repeated(self, depth: int) -> str:
        rng = self._rng
        if depth and rng.random() < 0.6:
            self._names += 1
            group = rng.choice(GROUPS).replace("{n}", str(self._names))
            text = group.replace("{}", self._alternatives(depth - 1), 1)
        else:
            text = rng.choice(ATOMS)
        return text + rng.choice(REPETITIONS) if rng.random() < 0.35 else text
