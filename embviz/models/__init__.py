"""Language models of Hugging Face at other widths, and a fast product of matrices."""

from embviz.imports import require

require("torch", "torch", purpose="embviz.models")
