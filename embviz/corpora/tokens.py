"""What the tokens of a vocabulary are: their texts, and their kinds by script, place in a word and use."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable

import regex

WORD_START, CONTINUATION, DIGIT, PUNCTUATION = "word start", "continuation", "digit", "punctuation"
BLANK, BYTE, SPECIAL, UNUSED = "white space", "byte", "special", "unused"
LEAST = 0.01  # share of a vocabulary that a mark stands in where the tokenizer writes it

SENTENCE_PIECE, BYTE_LEVEL, WORD_PIECE = "▁", "Ġ", "##"  # a blank, a blank as a byte, a continued word
ROW = re.compile(r" ?\[row \d+\]$")  # a row without a token, or a token's second row
BYTE_TOKEN = re.compile(r"(<0x[0-9A-F]{2}>)+$")
UNUSED_TOKEN = re.compile(
    r"(?i)[<\[]\|?(unused|reserved|placeholder|dummy|special_|pad)\w*?\d+\|?[>\]]$"
    r"|madeupword\d+$|\[row \d+\]$"
)
SPECIAL_TOKEN = re.compile(r"<\|.+\|>$|</?[A-Za-z]\w*>$|\[/?[A-Z][A-Z_]*\d*\]$")
# Unicode's scripts that tokenizers of many languages have letters of; others are "other script".
# fmt: off
SCRIPTS = (
    "Latin", "Han", "Cyrillic", "Arabic", "Hangul", "Hiragana", "Katakana", "Devanagari", "Bengali", "Thai",
    "Greek", "Hebrew", "Tamil", "Telugu", "Kannada", "Malayalam", "Gujarati", "Gurmukhi", "Oriya", "Sinhala",
    "Myanmar", "Khmer", "Lao", "Georgian", "Armenian", "Ethiopic", "Tibetan", "Mongolian", "Syriac", "Thaana",
    "Cherokee", "Canadian_Aboriginal", "Yi", "Gothic", "Coptic", "Tifinagh", "Runic", "Bopomofo", "Javanese",
    "Cuneiform", "Egyptian_Hieroglyphs",
)
# fmt: on
LETTERS = regex.compile(
    r"(?P<Common>[^\p{L}\p{M}]|[\p{Common}\p{Inherited}])|"
    + "|".join(rf"(?P<{name}>\p{{{name}}})" for name in SCRIPTS)
    + "|(?P<other>.)",
    flags=regex.DOTALL,
)
ONLY_DIGITS = regex.compile(r"\p{N}+$")


def token_texts(tokens: Iterable[str]) -> list[str]:
    """The text that each token stands for, with a blank before it where the token begins a word.

    Parameters
    ----------
    tokens : iterable of str
        A whole vocabulary: its marks say how its tokenizer writes a word's beginning. Read are
        SentencePiece's ``▁``, the ``Ġ`` and the other stand-ins for bytes of GPT-2's byte pairs, and
        WordPiece's ``##`` before a continuation. Without such marks the tokens are their own texts.

    Returns
    -------
    list of str
        A token whose bytes are no whole characters is written as these bytes, ``<0x20><0xE2>``.

    Examples
    --------
    >>> token_texts(["▁king", "dom", "<0xE2>"]), token_texts(["Ġking", "dom", "â"])
    ([' king', 'dom', '<0xE2>'], [' king', 'dom', '<0xE2>'])
    >>> token_texts(["king", "##dom", "[CLS]"])
    [' king', 'dom', '[CLS]']
    """
    tokens = [str(token) for token in tokens]
    mark = _mark(tokens)
    return [_text(token, mark) for token in tokens]


def token_kinds(tokens: Iterable[str]) -> list[str]:
    """What each token of a vocabulary is.

    Parameters
    ----------
    tokens : iterable of str
        A whole vocabulary, as for :func:`token_texts`.

    Returns
    -------
    list of str
        "unused" (``<unused3>``, ``[unused3]``, a row without a token), "byte" (``<0x41>``, or bytes that are
        no whole character), "special" (``<bos>``, ``[CLS]``, ``<table>``), "white space", "digit",
        "punctuation" (no letter and not only digits), Unicode's script where most letters are of another than
        the Latin ("Cyrillic", "Han", ..., "other script"), and of Latin letters "word start" or
        "continuation". In a vocabulary without marks each Latin word is a word start.

    Examples
    --------
    >>> token_kinds(["<bos>", "▁king", "dom", "▁1", "▁царь", "...", "<unused7>", "<0x41>", "▁▁"])[:5]
    ['special', 'word start', 'continuation', 'digit', 'Cyrillic']
    """
    tokens = [str(token) for token in tokens]
    mark = _mark(tokens)
    return [_kind(token, mark) for token in tokens]


def _mark(tokens: list[str]) -> str:
    """How the tokenizer marks words' beginnings or continuations; "" where it does not."""
    found = Counter(
        next((mark for mark in (SENTENCE_PIECE, BYTE_LEVEL, WORD_PIECE) if token.startswith(mark)), "")
        for token in tokens
    )
    found.pop("", None)
    mark, n = max(found.items(), key=lambda item: item[1], default=("", 0))
    return mark if n >= max(LEAST * len(tokens), 1) else ""


def _named(token: str) -> str | None:
    """The kind of a token that is no text but a name, or None."""
    if token[:1] not in ("<", "[", "m"):
        return None
    if UNUSED_TOKEN.match(token):
        return UNUSED
    if BYTE_TOKEN.match(token):
        return BYTE
    return SPECIAL if SPECIAL_TOKEN.match(token) else None


def _text(token: str, mark: str) -> str:
    if _named(token):
        return token
    if token.endswith("]"):
        token = ROW.sub("", token)
    if mark == SENTENCE_PIECE:
        return token.replace(SENTENCE_PIECE, " ")
    if mark == WORD_PIECE:
        return token[2:] if token.startswith(WORD_PIECE) and len(token) > 2 else f" {token}"
    if mark == BYTE_LEVEL and all(character in _bytes_of() for character in token):
        written = bytes(_bytes_of()[character] for character in token)
        try:
            return written.decode("utf-8")
        except UnicodeDecodeError:
            return "".join(f"<0x{byte:02X}>" for byte in written)
    return token


def _kind(token: str, mark: str) -> str:
    if (named := _named(token)) is not None:
        return named
    text = _text(token, mark)
    inside = text.strip()
    if not inside:
        return BLANK
    if BYTE_TOKEN.match(inside):
        return BYTE
    if (script := _script_of(inside)) == "Latin":
        return WORD_START if not mark or text.startswith(" ") else CONTINUATION
    if script is None:
        return DIGIT if ONLY_DIGITS.match(inside) else PUNCTUATION
    return script


def _script_of(text: str) -> str | None:
    """The script of most of a text's letters, or None where it has no letter."""
    if text.isascii():
        return "Latin" if any(map(str.isalpha, text)) else None
    scripts = Counter(map(_script, text))
    scripts.pop("", None)
    return max(scripts, key=lambda name: scripts[name], default=None)


@functools.cache
def _script(character: str) -> str:
    """Unicode's script of a letter or of a mark on one; "" for all else."""
    found = LETTERS.match(character).lastgroup  # type: ignore[union-attr]
    return {"Common": "", "other": "other script"}.get(str(found), str(found).replace("_", " "))


@functools.cache
def _bytes_of() -> dict[str, int]:
    """The byte that each letter of GPT-2's byte pairs stands for: its own where that is printable."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
