"""Small models, each in a file that is read in one sitting."""

from embviz.imports import require

require("torch", "torch", purpose="embviz.models")
