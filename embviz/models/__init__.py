"""A decoder, other widths for trained models, and conversion from and to Hugging Face."""

from embviz.imports import require

require("torch", "torch", purpose="embviz.models")
