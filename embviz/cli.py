"""The command line: ``embviz data``. One function a subcommand; what it needs is imported inside."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.

    An error that the user can do something about is one line on standard error and exit code 1;
    ``embviz --debug`` shows where it came from.
    """
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
    except (ValueError, OSError, ImportError, MemoryError) as error:
        if arguments.debug:
            raise
        print(f"embviz: {' '.join(str(error).split()) or type(error).__name__}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("embviz: stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    import embviz

    parser = argparse.ArgumentParser(
        prog="embviz", description="Instruments for the geometry of embeddings, and a book written with them."
    )
    parser.add_argument("--version", action="version", version=f"embviz {embviz.__version__}")
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_data(commands)
    return parser


def _add_data(commands: Any) -> None:
    data = commands.add_parser("data", help="data sets: list, fetch, verify")
    verbs = data.add_subparsers(metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="what the registry names, and what is at hand")
    listing.set_defaults(command=data_list)
    fetch = verbs.add_parser("fetch", help="download what is not at hand")
    fetch.add_argument("names", nargs="+", metavar="NAME", help="a data set")
    fetch.set_defaults(command=data_fetch)
    verify = verbs.add_parser("verify", help="compare the files at hand with their checksums")
    verify.add_argument("names", nargs="*", metavar="NAME", help="a data set; default all")
    verify.set_defaults(command=data_verify)
    for verb in (listing, fetch, verify):
        verb.add_argument("--json", action="store_true", help="print JSON instead of a table")


def data_list(arguments: argparse.Namespace) -> int:
    """``embviz data list``: the registry's files, and which of them are at hand."""
    from embviz import registry

    table = registry.list_data()
    if arguments.json:
        return _print_json(table)
    table["size"] = [_megabytes(n_bytes) for n_bytes in table["bytes"]]
    _print_table(table[["name", "part", "kind", "size", "state", "licence"]])
    return 0


def data_fetch(arguments: argparse.Namespace) -> int:
    """``embviz data fetch``: exit code 1 if one of the data sets could not be had."""
    from embviz import registry

    table = registry.fetch_data(arguments.names, progress=not arguments.json)
    return _print_states(table, arguments, failures={"failed"})


def data_verify(arguments: argparse.Namespace) -> int:
    """``embviz data verify``: exit code 1 if a file is wrong, or one asked for by name is absent."""
    from embviz import registry

    table = registry.verify_data(arguments.names or None)
    return _print_states(table, arguments, failures={"wrong", "absent"} if arguments.names else {"wrong"})


def _print_states(table: pd.DataFrame, arguments: argparse.Namespace, *, failures: set[str]) -> int:
    if arguments.json:
        _print_json(table)
    else:
        _print_table(table[["name", "part", "state", "path"]])
        for problem in table.loc[table["state"].isin(failures), "problem"]:
            print(f"embviz: {problem}", file=sys.stderr)
    return int(table["state"].isin(failures).any())


def _print_json(table: pd.DataFrame) -> int:
    print(json.dumps(json.loads(table.to_json(orient="records")), indent=2, ensure_ascii=False))
    return 0


def _print_table(table: pd.DataFrame) -> None:
    """Columns of text, aligned to the left, as wide as their longest cell."""
    rows = [list(table.columns), *table.astype(object).where(table.notna(), "-").values.tolist()]
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _megabytes(n_bytes: Any) -> str:
    """A size for people: no decimals from 10 MB."""
    import pandas as pd

    if pd.isna(n_bytes):
        return "-"
    megabytes = int(n_bytes) / 1e6
    return f"{megabytes:,.0f} MB" if megabytes >= 10 else f"{megabytes:.2f} MB"


if __name__ == "__main__":
    sys.exit(main())
