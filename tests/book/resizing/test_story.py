"""The story that stored models read in the chapters."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from book.resizing import story
from book.resizing.experiments import bases


def test_the_story_is_read_in_bytes_from_its_first_character():
    held_out = story.streams().held_out
    assert bytes(held_out.ids[1:-1].astype(np.uint8)).decode() == story.STORY
    assert len(story.STORY) > bases.base("laptop").training.length + 1  # long enough to draw pieces from


def test_a_model_of_the_bundled_text_reads_that_and_others_the_story():
    quick, laptop = (
        SimpleNamespace(config=bases.base(preset), streams="its own") for preset in ("quick", "laptop")
    )
    assert story.streams_for(quick) == "its own"
    assert story.streams_for(laptop) is story.streams()


def test_a_model_of_other_tokens_is_refused():
    run = bases.base("laptop")
    pairs = dataclasses.replace(run, text=dataclasses.replace(run.text, tokens="byte pairs", vocab_size=512))
    with pytest.raises(ValueError, match="the model reads byte pairs"):
        story.streams_for(SimpleNamespace(config=pairs))
