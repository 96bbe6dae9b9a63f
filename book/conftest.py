"""nbval compares chapters as the book stores them: explorers with their whole grids."""

import os

os.environ["EMBVIZ_GRIDS"] = "1"
