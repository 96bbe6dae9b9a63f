"""The book: a folder a paper, with its chapters, what they draw, and the experiments behind them."""

import sys

from book import labels as labels  # adds the axis titles

if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
    from embviz.view import typeset_frames

    typeset_frames()  # a chapter shows its tables in the book's form
