"""Classes of characters, as far as ASCII goes: a class is an integer with a bit for each character.

Topic names are ASCII. Of other characters only their syntax counts, and that two of them are equal
to ASCII letters if case is ignored: the long s (U+017F) and the Kelvin sign (U+212A).
"""

from __future__ import annotations

#: All characters.
ANY = (1 << 128) - 1
NOTHING = 0


def range_mask(low: int, high: int, fold: bool = False) -> int:
    """The characters from `low` to `high`; with `fold`, those that are equal but for case, too."""
    mask = 0
    if low < 128:
        mask = (1 << (min(high, 127) + 1)) - (1 << low)
    if fold:
        mask |= (mask & _UPPER) << 32 | (mask & _LOWER) >> 32
        for code_point, letters in _FOLDED:
            if low <= code_point <= high:
                mask |= letters
    return mask


def _mask(*ranges: str) -> int:
    return sum([(1 << (ord(each[-1]) + 1)) - (1 << ord(each[0])) for each in ranges])


_DIGITS, _UPPER, _LOWER = _mask("09"), _mask("AZ"), _mask("az")
_LETTERS = _UPPER | _LOWER
_WORD = _DIGITS | _LETTERS | _mask("_")
_FOLDED = ((0x17F, _mask("s", "S")), (0x212A, _mask("k", "K")))
_CONTROLS = _mask("\0\x1f", "\x7f")
_PUNCTUATION = _mask("!/", ":@", "[`", "{~")

PERL_CLASSES = {
    "d": _DIGITS,
    "s": _mask("\t\n", "\f\r", " "),
    "w": _WORD,
}
PERL_CLASSES |= {name.upper(): ANY ^ mask for name, mask in PERL_CLASSES.items()}

POSIX_CLASSES = {
    "alnum": _DIGITS | _LETTERS,
    "alpha": _LETTERS,
    "ascii": ANY,
    "blank": _mask("\t", " "),
    "cntrl": _CONTROLS,
    "digit": _DIGITS,
    "graph": _mask("!~"),
    "lower": _LOWER,
    "print": _mask(" ~"),
    "punct": _PUNCTUATION,
    "space": _mask("\t\r", " "),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _mask("09", "AF", "af"),
}

#: Categories and scripts of Unicode that contain ASCII characters.
_UNICODE_CLASSES = {
    "Any": ANY,
    "C": _CONTROLS,
    "Cc": _CONTROLS,
    "L": _LETTERS,
    "Ll": _LOWER,
    "Lu": _UPPER,
    "N": _DIGITS,
    "Nd": _DIGITS,
    "P": _PUNCTUATION & ~_mask("$", "+", "<>", "^", "`", "|", "~"),
    "Pc": _mask("_"),
    "Pd": _mask("-"),
    "Pe": _mask(")", "]", "}"),
    "Po": _mask("!#", "%'", "*", ",", "./", ":;", "?@", "\\"),
    "Ps": _mask("(", "[", "{"),
    "S": _mask("$", "+", "<>", "^", "`", "|", "~"),
    "Sc": _mask("$"),
    "Sk": _mask("^", "`"),
    "Sm": _mask("+", "<>", "|", "~"),
    "Z": _mask(" "),
    "Zs": _mask(" "),
    "Common": ANY ^ _LETTERS,
    "Latin": _LETTERS,
}
#: Those that contain more if case is ignored. The tables of re2j add to Ll no other letters.
_FOLDED_CLASSES = {"Lu": _LETTERS, "Ll": _LOWER | _mask("K", "S")}
#: Those without ASCII characters, as of the version of Unicode that re2j 1.8 has.
_OTHER_CLASSES = frozenset(
    [
        "Cf",
        "Co",
        "Cs",
        "Lm",
        "Lo",
        "Lt",
        "M",
        "Mc",
        "Me",
        "Mn",
        "Nl",
        "No",
        "Pf",
        "Pi",
        "So",
        "Zl",
        "Zp",
        "Arabic",
        "Armenian",
        "Avestan",
        "Balinese",
        "Bamum",
        "Batak",
        "Bengali",
        "Bopomofo",
        "Brahmi",
        "Braille",
        "Buginese",
        "Buhid",
        "Canadian_Aboriginal",
        "Carian",
        "Cham",
        "Cherokee",
        "Coptic",
        "Cuneiform",
        "Cypriot",
        "Cyrillic",
        "Deseret",
        "Devanagari",
        "Egyptian_Hieroglyphs",
        "Ethiopic",
        "Georgian",
        "Glagolitic",
        "Gothic",
        "Greek",
        "Gujarati",
        "Gurmukhi",
        "Han",
        "Hangul",
        "Hanunoo",
        "Hebrew",
        "Hiragana",
        "Imperial_Aramaic",
        "Inherited",
        "Inscriptional_Pahlavi",
        "Inscriptional_Parthian",
        "Javanese",
        "Kaithi",
        "Kannada",
        "Katakana",
        "Kayah_Li",
        "Kharoshthi",
        "Khmer",
        "Lao",
        "Lepcha",
        "Limbu",
        "Linear_B",
        "Lisu",
        "Lycian",
        "Lydian",
        "Malayalam",
        "Mandaic",
        "Meetei_Mayek",
        "Mongolian",
        "Myanmar",
        "New_Tai_Lue",
        "Nko",
        "Ogham",
        "Ol_Chiki",
        "Old_Italic",
        "Old_Persian",
        "Old_South_Arabian",
        "Old_Turkic",
        "Oriya",
        "Osmanya",
        "Phags_Pa",
        "Phoenician",
        "Rejang",
        "Runic",
        "Samaritan",
        "Saurashtra",
        "Shavian",
        "Sinhala",
        "Sundanese",
        "Syloti_Nagri",
        "Syriac",
        "Tagalog",
        "Tagbanwa",
        "Tai_Le",
        "Tai_Tham",
        "Tai_Viet",
        "Tamil",
        "Telugu",
        "Thaana",
        "Thai",
        "Tibetan",
        "Tifinagh",
        "Ugaritic",
        "Unknown",
        "Vai",
        "Yi",
    ]
)


def posix_class(name: str, fold: bool) -> int | None:
    """The class of `[:name:]`, with a `^` before the name its complement; None if unknown."""
    mask = POSIX_CLASSES.get(name.removeprefix("^"))
    if mask is None:
        return None
    if fold and name.removeprefix("^") in {"lower", "upper"}:
        mask = _LETTERS
    return ANY ^ mask if name.startswith("^") else mask


def unicode_class(name: str, fold: bool) -> int | None:
    """The class of `\\p{name}`; None if it is unknown."""
    if name in _OTHER_CLASSES:
        return NOTHING
    return (fold and _FOLDED_CLASSES.get(name)) or _UNICODE_CLASSES.get(name)
