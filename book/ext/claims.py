"""Blocks that show the ledger, such as ``{claim} geometry.carrier``: filled in from it at each build."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from book import view
from book.ledger.places import ledger_path
from book.view.blocks import KINDS, markdown

CODE = sorted(Path(view.__file__).parent.glob("*.py"))


class LedgerBlock(SphinxDirective):
    """A block of any kind; an error where it names nothing, or where its verdicts have moved."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """What it shows; the page is built again when the ledger changes."""
        for path in (ledger_path(), *CODE):
            self.env.note_dependency(str(path))
        about = self.arguments[0] if self.arguments else ""
        try:
            text = markdown(self.name, about, "\n".join(self.content), self.env.docname)
        except ValueError as error:
            raise self.error(str(error)) from None
        return self.parse_text_to_nodes(text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    for kind in KINDS:
        app.add_directive(kind, LedgerBlock)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
