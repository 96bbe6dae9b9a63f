"""The book's command line: ``python -m book run | ledger | lab | new``, in a checkout."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from book import ledger
from book.ledger import claims, copies, new, places
from embviz.cli import print_rows

LAB_OPTIONS = (  # of JupyterLab, which then asks no other host and installs nothing
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.news_url=None",
    "--LabApp.extension_manager=readonly",
    # which shows stored pictures where widgets have ended; an installed embviz brings it to any JupyterLab
    f"--LabApp.extra_labextensions_path={places.ROOT / 'embviz' / 'view' / 'labextensions'}",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. An error that one can do something about is one line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a letter that the locale lacks ends no command
            stream.reconfigure(errors="replace")
    try:
        code = int(commands.main(argv, prog_name="python -m book", standalone_mode=False) or 0)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader, head or less, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        print("book: stopped", file=sys.stderr)
        return 130
    except (ValueError, OSError, ImportError, MemoryError) as error:
        print(f"book: {' '.join(str(error).split()) or type(error).__name__}", file=sys.stderr)
        return 1


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def commands() -> None:
    """Measure the claims of the papers, show verdicts, open the chapters."""


@commands.command()
@click.argument("claim")
@click.option("--preset", default="quick", type=click.Choice(claims.PRESETS), show_default=True)
@click.option("--jobs", type=click.IntRange(1), help="Worker processes; default as many as cores.")
@click.option("--dry-run", is_flag=True, help="Only count what is missing.")
@click.option(
    "--scheduler", metavar="ADDRESS", help="Compute on a dask cluster, such as tcp://10.0.0.1:8786."
)
def run(claim: str, preset: str, jobs: int | None, dry_run: bool, scheduler: str | None) -> int:
    """Compute and store what is missing of CLAIM: a claim, a paper, or "all".

    Stop it at any time (Ctrl-C): the same command continues. Exit code 1 if data are missing or a cell
    failed.
    """
    from book.ledger.cells import FailedCellsError  # it brings pandas, which the ledger does without

    failed = False
    with ledger.connected(scheduler) if scheduler else contextlib.nullcontext():
        for claim_id in _claim_ids(claim):
            wanted = ledger.find_study(claim_id).every_cell(preset)
            todo = ledger.missing(wanted)
            print(f"{claim_id}: {len(todo)} of {len(wanted)} cells to compute at preset {preset}")
            if dry_run:
                continue
            try:
                ledger.run(todo, n_jobs=jobs)
            except (FileNotFoundError, FailedCellsError) as error:  # must not stop the other claims
                print(f"book: {claim_id}: {error}", file=sys.stderr)
                failed = True
            n_missing = len(ledger.missing(todo))
            if n_missing == 0 or n_missing < len(todo):
                item = ledger.derive(ledger.find_claim(claim_id))
                ledger.store_entries([item])
                print(_verdict_line(item))
    return int(failed)


@commands.command("ledger")
@click.argument("claim", default="all")
@click.option("--derive", is_flag=True, help="Judge stored results again and write the ledger file.")
@click.option(
    "--scale", type=click.Choice(claims.PRESETS), help="Judge results of this preset; write nothing."
)
@click.option("--json", "as_json", is_flag=True, help="Print entries as data/ledger.json has them.")
def show_ledger(claim: str, derive: bool, scale: str | None, as_json: bool) -> None:
    """Show claims with their verdicts, or one CLAIM with its measurements."""
    if derive and scale:
        raise click.UsageError("--derive and --scale exclude each other")
    wanted = None if claim == "all" else claim
    if derive or scale:
        items = [ledger.derive(ledger.find_claim(one), scale=scale) for one in _claim_ids(claim)]
        if derive:
            ledger.store_entries(items)
    else:
        items = [ledger.entry(wanted)] if wanted and "." in wanted else ledger.entries(wanted)
        if changed := ledger.changed_since(items):
            told = f"{', '.join(changed)} changed since its verdict: `python -m book ledger --derive`"
            print(f"book: {told}", file=sys.stderr)
    if as_json:
        print(ledger.as_json(items))
    elif len(items) == 1:
        (item,) = items
        print(_verdict_line(item))
        print(f"  {item.claim.says}\n" + (f"  {item.reason}\n" if item.reason else ""))
        print_rows(ledger.measurement_texts(item))
        for sentence in item.claim.amended:
            print(f"\n  amended {sentence}")
    else:
        print_rows(ledger.summary(items))


@commands.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Other options are passed to JupyterLab, such as --port 9999 --no-browser --allow-root.",
)
@click.option("--folder", metavar="DIR", help="Folder for the copies; default ~/embviz/CHECKOUT.")
@click.option("--in-place", is_flag=True, help="Open the chapters themselves, to edit them.")
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
def lab(folder: str | None, in_place: bool, rest: tuple[str, ...]) -> int:
    """Open copies of the chapters live in JupyterLab, which ends with this process."""
    from book.view.blocks import fill_notebook  # imports what pages are made with
    from embviz.imports import require

    require("book", "jupyterlab", purpose="python -m book lab")
    here = places.BOOK
    if not in_place:
        here = Path(folder or Path.home() / "embviz" / places.ROOT.name)
        written, kept = copies.copy_chapters(places.BOOK, here, fill_notebook)
        print(f"chapters: {here}, {len(written)} copied now; the book's own stay as they are")
        for name in kept:
            print(f"  {name} has changed in the book, your edited copy stays: delete it to get the new one")
    command = [sys.executable, "-m", "jupyterlab", str(here), *LAB_OPTIONS, *rest]
    path = os.pathsep.join(filter(None, [str(places.ROOT), os.environ.get("PYTHONPATH")]))  # copies import it
    environment = os.environ | {"PYTHONPATH": path, "EMBVIZ_COMPUTE": "1"}  # they compute what pages store
    sys.stdout.flush()
    if sys.platform == "win32":  # no process can become another there
        return subprocess.call(command, env=environment)
    return os.execve(sys.executable, command, environment)


@commands.command("new")
@click.argument("name")
def add_paper(name: str) -> None:
    """Begin a paper called NAME in this checkout: a claim, an experiment, a chapter, a test."""
    for file in new.new_paper(name, places.ROOT):
        print(file)
    print(
        f"\nNow, in {places.ROOT}:\n"
        f"  python -m book run {name}      # measures what is missing, in seconds\n"
        f"  python -m book ledger {name}   # what follows: a verdict\n"
        f"  python book/execute.py book/{name}/neighbours.ipynb   # runs the chapter, stores its outputs\n"
        f"  python -m book lab --in-place  # the chapter, live\n"
        f"  pytest tests/book/{name}"
    )


def _claim_ids(wanted: str) -> list[str]:
    """Ids of the claims meant by an id, a paper's key, or "all"."""
    if wanted == "all":
        return [claim.id for claim in claims.load_claims()]
    if wanted in claims.papers():
        return [claim.id for claim in claims.load_claims(wanted)]
    return [claims.find_claim(wanted).id]


def _verdict_line(item: ledger.Entry) -> str:
    details = [item.agree and f"{item.agree} agree", item.scale and f"scale {item.scale}"]
    return "; ".join(
        [
            f"{item.claim.id}: {ledger.tagged(item.verdict, item.smaller_scale)}",
            *filter(None, [", ".join(filter(None, details))]),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
