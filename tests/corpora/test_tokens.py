"""Kinds of tokens and their texts, in the conventions of three tokenizers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import ByteLevelBPETokenizer

from embviz.corpora.tokens import token_kinds, token_texts

PIECES = {  # of a SentencePiece vocabulary, with their kinds
    "<bos>": "special", "<start_of_turn>": "special", "<table>": "special", "</s>": "special",
    "<unused12>": "unused", "[row 7]": "unused", "<0x0A>": "byte", "▁▁": "white space", "\n": "white space",
    "▁king": "word start", "dom": "continuation", "▁naïve": "word start", "B2B": "continuation",
    "7": "digit", "▁१२": "digit", "Ⅳ": "digit", "...": "punctuation", "▁(": "punctuation",
    "🙂": "punctuation",
    "▁царь": "Cyrillic", "ство": "Cyrillic", "漢字": "Han", "のは": "Hiragana", "ा": "Devanagari",
    "𒀊": "Cuneiform", "𐎀": "other script", "▁d'été [row 9]": "word start",
}  # fmt: skip


def test_each_piece_of_sentencepiece_has_its_kind():
    assert dict(zip(PIECES, token_kinds(PIECES), strict=True)) == PIECES


def test_wordpieces_mark_continuations():
    pieces = ["[CLS]", "[unused3]", "king", "##dom", "##", "#", "[MASK]", "!", "1999", "##7"]
    assert token_kinds(pieces) == [
        "special", "unused", "word start", "continuation", "punctuation", "punctuation", "special",
        "punctuation", "digit", "digit",
    ]  # fmt: skip
    assert token_texts(pieces)[2:5] == [" king", "dom", " ##"]


def test_words_without_marks_are_their_own_texts_and_word_starts():
    words = ["king", "London", "'s", "u.s.", "1990s", "москва"]
    assert token_texts(words) == words
    assert token_kinds(words) == ["word start"] * 5 + ["Cyrillic"]
    assert (token_kinds([]), token_texts([])) == ([], [])


def test_texts_of_byte_pairs_are_what_their_library_decodes():
    tokenizer = ByteLevelBPETokenizer()
    text = ["die Königin, 漢字 und 1,234 Zahlen\n" * 40]
    tokenizer.train_from_iterator(text, vocab_size=330, special_tokens=["<|endoftext|>"], show_progress=False)
    names = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    texts = token_texts(names)
    kinds = dict(zip(texts, token_kinds(names), strict=True))
    for text, name in zip(texts, names, strict=True):
        decoded = tokenizer.decode([tokenizer.token_to_id(name)], skip_special_tokens=False)
        assert text == decoded if "�" not in decoded else text.startswith("<0x")
    assert kinds[" und"] == "word start"
    assert kinds["<0xE6>"] == "byte"
    assert kinds["<|endoftext|>"] == "special"


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1)))
def test_any_tokens_have_one_kind_and_one_text_each(tokens):
    assert len(token_kinds(tokens)) == len(token_texts(tokens)) == len(tokens)
    assert "" not in token_kinds(tokens)


def test_a_rare_mark_is_a_letter_and_no_convention():
    maltese = ["Ġgant", *[f"word{i}" for i in range(300)]]
    assert token_texts(maltese) == maltese
    assert token_kinds(maltese)[0] == "word start"
