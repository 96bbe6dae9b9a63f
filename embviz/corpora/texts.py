"""Text in, text out: text8's normal form, and the filter for Wikipedia dumps."""

from __future__ import annotations

import re
from collections.abc import Iterator

DIGIT_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# keeps a-z and digits, lower-cases A-Z, everything else becomes a space
_LETTERS_AND_DIGITS = bytes(
    byte + 32 if 65 <= byte <= 90 else byte if chr(byte) in "abcdefghijklmnopqrstuvwxyz0123456789" else 32
    for byte in range(256)
)
# the only characters outside ASCII whose lower case has an ASCII letter: I with a dot, the kelvin sign
_LOWER_TO_ASCII = ((b"\xc4\xb0", b"i "), (b"\xe2\x84\xaa", b"k"))
_CHUNK = 1 << 20  # bytes normalized at a time: word objects of one chunk, not of the whole text


def normalize_words(text: str | bytes) -> bytes:
    """A text in text8's normal form: words of a-z, one space between, digits spelled out.

    Letters are lower-cased, each digit becomes its English word, every run of other characters one
    space; there is no space at the ends.

    The text may be UTF-8 bytes; the result is ASCII bytes, possibly empty.

    Source
    ------
    M. Mahoney, "About the test data" (2011), the last steps of the filter that made text8.

    Examples
    --------
    >>> normalize_words("In 1905, Einstein's paper")
    b'in one nine zero five einstein s paper'
    """
    content = text.encode() if isinstance(text, str) else text
    pieces = []
    start = 0
    while start < len(content):
        end = content.find(b" ", start + _CHUNK)  # at a space, so that no word is cut
        end = len(content) if end < 0 else end
        chunk = content[start:end]
        for letter, ascii_letter in _LOWER_TO_ASCII:
            chunk = chunk.replace(letter, ascii_letter)
        piece = _ascii_words(chunk)
        if piece:
            pieces.append(piece)
        start = end
    return b" ".join(pieces)


def _ascii_words(chunk: bytes) -> bytes:
    chunk = chunk.translate(_LETTERS_AND_DIGITS)
    for digit, word in enumerate(DIGIT_WORDS):
        chunk = chunk.replace(b"%d" % digit, b" %s " % word.encode())
    return b" ".join(chunk.split())


# In order; names say what a rule takes away or turns into plain text. A dump escapes its "<" and ">".
_MARKUP = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (rb"&amp;", b"&"),
        (rb"&lt;", b"<"),
        (rb"&gt;", b">"),
        (rb"<ref[^<]*</ref>", b""),  # notes
        (rb"<[^>]*>", b""),  # tags
        (rb"\[http:[^] ]*", b"["),  # addresses of outer links; their text stays
        (rb"(?i)\|thumb", b""),  # options of images
        (rb"(?i)\|left", b""),
        (rb"(?i)\|right", b""),
        (rb"(?i)\|\d+px", b""),
        (rb"(?i)\[\[image:[^\[\]]*\|", b""),  # names of images; captions stay
        (rb"(?i)\[\[category:([^|\]]*)[^]]*\]\]", rb"[[\1]]"),
        (rb"\[\[[a-z\-]*:[^\]]*\]\]", b""),  # links to other languages
        (rb"\[\[[^|\]]*\|", b"[["),  # targets of links; their text stays
        (rb"\{\{[^}]*\}\}", b""),  # templates
        (rb"\{[^}]*\}", b""),  # tables
        (rb"[\[\]]", b""),
        (rb"&[^;]*;", b" "),  # character entities
    )
)
_FIRST_TAGS = re.compile(rb"<.*>")  # greedy, within a line


def wikifil(dump: bytes) -> Iterator[bytes]:
    """Articles of a Wikipedia XML dump as a reader sees them, in text8's normal form.

    The dump is read in records that end in ">". Text runs from a ``<text`` tag to its end; redirects
    are left out, as are tags, notes, templates, tables and links to other languages; captions and the
    visible words of links stay. Letters outside ASCII are not lower-cased but become spaces.

    Parameters
    ----------
    dump : bytes of the XML file

    Yields
    ------
    ASCII bytes of one article each, never empty; joined by single spaces they are the filter's output

    Source
    ------
    M. Mahoney, "About the test data" (2011), appendix: the filter that made text8 from enwik9. The
    order of its rules matters and is kept.
    """
    inside = False
    start = 0
    while start < len(dump):
        end = dump.find(b">", start) + 1 or len(dump)
        record = dump[start:end]
        start = end
        if b"<text " in record:
            inside = True
        if inside and b"#redirect" in record.lower():
            inside = False
        if not inside:
            continue
        inside = b"</text>" not in record
        record = _FIRST_TAGS.sub(b"", record, count=1)
        for pattern, replacement in _MARKUP:
            record = pattern.sub(replacement, record)
        words = _ascii_words(record)
        if words:
            yield words
