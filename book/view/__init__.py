"""What the book's pages alone show: claims, tables of results, sentences filled from them."""

from book.view.sentences import say
from book.view.tables import figures_table

__all__ = ["figures_table", "say"]
