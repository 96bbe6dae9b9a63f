"""The book: a folder a paper, with its chapters, what they draw, and the experiments behind them."""

from book import labels as labels  # adds the axis titles
