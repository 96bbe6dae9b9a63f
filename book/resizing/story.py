"""A short story for base models of the resizing chapters to read where their data set is not available.

Chapters read it wherever the data set is, too: a page is the same on every machine.
"""

from __future__ import annotations

import functools
import hashlib

import numpy as np
import torch
from torch import Tensor

from book.language import Streams, make_stream
from book.resizing.experiments.bases import Base
from embviz.corpora.registry import EMBEDDED

STORY = (
    "One day, a boy named Tom found a red kite under a big tree. It was old and it had a hole. "
    'Tom ran home to his mom. "Look, mom! Can we fix it?" he asked. Mom smiled and said, "Yes, we '
    'can. Bring me the tape." They sat at the table and put tape on the hole. Then they tied a '
    "long string to the kite.\n"
    "The next morning the sun was out and the wind was strong. Tom and his friend Lily went up "
    "the hill. Tom held the string and Lily threw the kite up. It went up and up, over the trees "
    'and over the houses. "It looks like a bird!" said Lily. They were so happy that they jumped '
    "and laughed.\n"
    "Then the wind pulled hard, and the string slipped out of his hand. The kite flew away. Tom "
    'was sad. He sat down in the grass and began to cry. Lily took his hand. "Do not cry," she '
    'said. "Let us look for it together." They walked down the hill and through the park. There '
    'was a little dog by the pond, and it had the kite in its mouth! Tom said, "Thank you, little '
    'dog." The dog wagged its tail. From that day on, the dog came with them every time they went '
    "to fly the kite. They all played until it was time to go home."
)


@functools.cache
def streams() -> Streams:
    """The story as a text in bytes, to train on and held out."""
    stream = make_stream([STORY])
    return Streams(stream, stream, 256, hashlib.sha256(STORY.encode()).hexdigest())


def windows(length: int, n: int = 8) -> Tensor:
    """The first n windows of the story, (n, length) bytes."""
    return torch.from_numpy(streams().train.ids[: n * length].astype(np.int64)).view(n, length)


def streams_for(base: Base) -> Streams:
    """What a chapter lets a base model read: its own text where that is bundled, else the story.

    Raises
    ------
    ValueError
        If the model doesn't read bytes.
    """
    if base.config.text.tokens != "bytes":
        raise ValueError(f"the story is in bytes, and the model reads {base.config.text.tokens}")
    return base.streams if base.config.text.corpus == EMBEDDED else streams()
