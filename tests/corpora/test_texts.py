import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embviz import storage
from embviz.corpora import registry, texts

DIGITS = dict(zip("0123456789", texts.DIGIT_WORDS, strict=True))
# letters, digits, punctuation and the letters outside ASCII whose lower case is in it
CHARACTERS = st.text(st.sampled_from("abzABZ019 .,\n\t-'éÉßİKı\u2029字") | st.characters())


def slow_normal_form(text):
    """The description taken literally, a character at a time."""
    out = []
    for character in text.lower():
        if character in DIGITS:
            out.append(f" {DIGITS[character]} ")
        else:
            out.append(character if "a" <= character <= "z" else " ")
    return " ".join("".join(out).split(" ")).strip(" ")


def squeezed(text):
    while "  " in text:
        text = text.replace("  ", " ")
    return text


@given(CHARACTERS.filter(lambda text: text.isascii() or max(text) < "\ud800" or min(text) > "\udfff"))
def test_the_normal_form_is_that_of_a_character_by_character_reading(text):
    for given_as in (text, text.encode()):
        assert texts.normalize_words(given_as).decode() == squeezed(slow_normal_form(text))


def test_only_two_characters_outside_ascii_have_a_lower_case_in_ascii():
    letters = set("abcdefghijklmnopqrstuvwxyz")
    found = [chr(c) for c in range(128, sys.maxunicode + 1) if letters & set(chr(c).lower())]
    assert found == ["\u0130", "\u212a"]
    assert texts.normalize_words("\u0130 \u212a") == b"i k"


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_the_normal_form_does_not_depend_on_where_a_long_text_is_cut(monkeypatch, chunk):
    text = "The 42nd K\u212a \u0130stanbul, d\u00e9j\u00e0 vu; " * 50
    whole = texts.normalize_words(text)
    monkeypatch.setattr(texts, "_CHUNK", chunk)
    assert texts.normalize_words(text) == whole


def _needs_mirror():
    if storage.mirror_folder() is None:
        pytest.skip("EMBVIZ_DATA_DIR is not set: the normal form was NOT compared with real text")


def test_text8_itself_is_in_normal_form():
    _needs_mirror()
    text = registry.read_bytes("text8_prefix")
    assert b" " + texts.normalize_words(text) == text


@pytest.mark.slow
def test_the_normal_form_of_wikipedia_is_the_reference_to_the_byte():
    _needs_mirror()
    documents = registry.read_bytes("enwiki2018_raw").split(b"<|endoftext|>")
    normal = b" ".join(filter(None, (texts.normalize_words(document) for document in documents)))
    assert (b" " + normal)[:100_000_000] == registry.read_bytes("enwiki2018")


# Wikipedia dumps


def page(body, title="A title"):
    escaped = body.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f'<page><title>{title}</title><text xml:space="preserve">{escaped}</text></page>\n'


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("plain words", "plain words"),
        ("a [[target|seen]] link", "a seen link"),
        ("a [[bare link]]", "a bare link"),
        ("see [http://example.org outside] here", "see outside here"),
        ("[[Image:a.jpg|thumb|left|200px|a ''caption'']]", "a caption"),
        ("[[image:a.jpg|A caption]]", "a caption"),
        ("[[Category:Birds|*]]", "birds"),
        ("[[fr:Oiseau]]", ""),
        ("[[Talk:Bird]]", "talk bird"),  # a capital: no language
        ("note<ref name=x>hidden</ref> seen", "note seen"),
        ("a<br/>b <b>bold</b>", "ab bold"),
        ("{{stub|x}}kept{|class=x\n|cell\n|}", "kept"),
        ("non&nbsp;breaking", "non breaking"),
        ("In 1905", "in one nine zero five"),
        ("caf\u00e9 \u212aelvin", "caf elvin"),  # no lower case outside ASCII in this filter
        ("first\nsecond", "first second"),
        ("#REDIRECT [[elsewhere]]", ""),
    ],
)
def test_the_wikipedia_filter_keeps_what_a_reader_sees(body, seen):
    assert b" ".join(texts.wikifil(page(body).encode())).decode() == seen


def test_the_wikipedia_filter_yields_an_article_each_and_nothing_outside_their_text():
    dump = "<mediawiki><siteinfo>site</siteinfo>" + page("one") + page("#redirect x") + page("two") + "tail"
    assert list(texts.wikifil(dump.encode())) == [b"one", b"two"]
    cut = page("one") + page("two words").partition("rds")[0]  # the end of the dump cuts an article
    assert list(texts.wikifil(cut.encode())) == [b"one", b"two wo"]
