"""The command line: ``embviz spectrum | map | inspect | compare | patch | states | trace | resize``, data."""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click import Choice, argument, option

import embviz

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

GONE = {  # commands and options of earlier versions, and what takes their place
    "--gradients": "--gradients is gone: embviz.training.strike(module, loss, batches) measures gradients",
    "run": "embviz run is now `python -m book run`, in a checkout of the book",
    "ledger": "embviz ledger is now `python -m book ledger`, in a checkout of the book",
    "lab": "embviz lab is now `python -m book lab`, in a checkout of the book",
    "new": "embviz new is now `python -m book new`, in a checkout of the book",
    "--rules": "--rules is gone: book/resizing/rules.py of the repository has the paper's Algorithm 1",
    "pack": "data pack is gone: copy the downloads into the folder that EMBVIZ_DATA_DIR names",
}

TOKENIZERS = Choice(["unicode", "text8"])
LAYOUTS, COLORS = Choice(["neighbors", "pca"]), Choice(["kind", "region", "length"])
MAPS = Choice(["orthonormal", "gaussian", "rademacher", "sparse", "hadamard", "pca", "repeat", "zeros"])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.

    An error that the user can do something about is one line on standard error and exit code 1, or 2 for a
    command that cannot be meant; ``embviz --debug`` shows where it came from.
    """
    _write_any_letter()
    debug = False
    try:  # not commands.main, which ends with an error where a reader such as head has seen enough
        with commands.make_context("embviz", list(sys.argv[1:] if argv is None else argv)) as context:
            debug = context.params["debug"]
            code = commands.invoke(context)
            sys.stdout.flush()
            return int(code or 0)
    except click.exceptions.Exit as end:  # after --help
        return end.exit_code
    except click.ClickException as error:
        name = getattr(error, "option_name", None) or getattr(error, "command_name", None)
        print(f"embviz: {GONE.get(str(name), error.format_message())}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 0
    except (ValueError, OSError, ImportError, MemoryError) as error:
        if debug:
            raise
        print(f"embviz: {_said(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("embviz: stopped", file=sys.stderr)
        return 130


def _said(error: Exception) -> str:
    """An error in one line; for a missing library with the command that installs it."""
    line = " ".join(str(error).split()) or type(error).__name__
    if type(error) is ModuleNotFoundError and error.name:  # a library that a room imports late
        from embviz.imports import extra_with

        extra = extra_with(error.name.partition(".")[0])
        return f'{line}: pip install "embviz[{extra}]"' if extra else line
    return line


def _write_any_letter() -> None:
    """A letter that the locale lacks ends no command: UTF-8 where it has none at all, such as C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            name = codecs.lookup(stream.encoding).name
            stream.reconfigure(encoding="utf-8" if name == "ascii" else name, errors="replace")


# --- commands ---------------------------------------------------------------------------------------


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True}, no_args_is_help=False
)
@click.version_option(embviz.__version__, message="embviz %(version)s")
@option("--debug", is_flag=True, help="Show where an error came from.")
def commands(debug: bool) -> None:
    """Measure the geometry of embeddings: of a text, word vectors, a model or a training run."""


def _import_charts(context: click.Context, parameter: click.Parameter, page: str | None) -> str | None:
    """What a page needs and is missing is said before anything is measured."""
    if page is not None:
        from embviz import view  # noqa: F401
    return page


_html = option("--html", metavar="FILE", callback=_import_charts, help="Write a page that works offline.")


def _path(text: str) -> Path:
    from pathlib import Path

    return Path(text)


@commands.command()
@argument("files", nargs=-1, required=True, metavar="FILE...", type=_path)
@option("--window", type=int, default=5, help="Words on each side.")
@option("--min-count", type=int, default=5, help="Smallest count of a word.")
@option("--words", type=int, default=2_000, help="Number of most frequent words used.")
@option("--tokenizer", type=TOKENIZERS, default="unicode", help="Any script; or a-z, digits spelled out.")
@option("--encoding", default="utf-8", help="Encoding of the files.")
@_html
def spectrum(
    files: Sequence[Path],
    window: int,
    min_count: int,
    words: int,
    tokenizer: Any,
    encoding: str,
    html: str | None,
) -> None:
    """Compute the PMI spectrum of your text, with controls.

    Eigenvalues of pointwise mutual information, their mirror image, and the same for shuffled tokens. FILE
    is a text file; .gz is unpacked. Words are of any script (unicode), or of a-z (text8).
    """
    from embviz.corpora import make_corpus
    from embviz.words import spectrum_report

    corpus = make_corpus([*files], name=files[0].stem, tokenizer=tokenizer, encoding=encoding)
    report = spectrum_report(corpus, window=window, min_count=min_count, max_vocab=words)
    _print_table(report.scores.round({"positive_share": 3, "mirror_distance": 3}))
    print(f"\n{report.sentence}")
    _write_page(html, lambda view: view.plot_spectrum(report))


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"{text!r} is no regular expression: {error}") from error


@commands.command("map")
@argument("vectors")
@option("--first", type=click.IntRange(1), metavar="N", help="The first N words; default all.")
@option("--matching", type=_pattern, metavar="REGEX", help="Words in which the regular expression is found.")
@option("--text", type=_path, metavar="FILE", help="The words of a text (UTF-8), frequent words first.")
@option("--layout", type=LAYOUTS, default="neighbors", help="UMAP, or principal components.")
@option("--color", type=COLORS, help="Colour by this first; default kind.")
@option("--raw", is_flag=True, help="Do not subtract the mean vector.")
@option("--focus", metavar="WORD", help="A word pointed at from the start.")
@option("--seed", default=0, help="Seed of neighbours and layout.")
@option("--html", metavar="FILE", required=True, help="Page to write; it works offline.")
def draw_map(
    vectors: str,
    first: int | None,
    matching: re.Pattern[str] | None,
    text: Path | None,
    layout: Any,
    color: Any,
    raw: bool,
    focus: str | None,
    seed: int,
    html: str,
) -> None:
    """Draw the map of word vectors, or of a model's whole vocabulary.

    VECTORS is a file of word vectors, a Hugging Face folder, a .gguf file, or the name of a released model.
    Of --first, --matching and --text one can be given.
    """
    chosen: list[Any] = [choice for choice in (first, matching, text) if choice is not None]
    if len(chosen) > 1:
        raise click.UsageError("give one of --first, --matching and --text")
    from embviz import view
    from embviz.corpora.registry import resolve_path
    from embviz.words import WordVectors

    path = resolve_path(vectors)
    if path.is_dir() or path.suffix == ".gguf":
        from embviz.inspection import model_vectors as load  # brings torch
    else:
        load = WordVectors.load
    picture = view.map_of(
        load(path),
        *(chosen or ["all"]),
        layout=layout,
        color=color,
        center=not raw,
        focus=focus,
        seed=seed,
        progress=True,
    )
    print(picture.caption)
    _write_page(html, lambda _: picture)


def _amount_or_all(text: str) -> int | None:
    if text != "all" and not text.isdecimal():
        raise click.BadParameter(f"{text!r} is neither a number from 0 on nor `all`")
    return None if text == "all" else int(text)


@commands.command()
@argument("model")
@option("--text", type=_path, metavar="FILE", help="Text for the next-token loss and the kernel.")
@option("--rows", type=int, default=500, help="Rows whose nearest rows are looked for among all.")
@option(
    "--map", "n_mapped", type=_amount_or_all, default="4000", metavar="N", help="Tokens on the page's map."
)
@option("--table", is_flag=True, help="Print all measurements.")
@_html
def inspect(
    model: str, text: Path | None, rows: int, n_mapped: int | None, table: bool, html: str | None
) -> None:
    """Measure the weights of your model, with controls.

    MODEL is a Hugging Face folder, a file (.safetensors, .gguf, .npy, a state_dict), or the name of a
    released model that `embviz data fetch` fetched. A tokenizer is taken from its folder. The kernel is one
    of tied embeddings. The map shows of each kind of token the first ones; `all` takes minutes for 262,144,
    and 0 draws none.
    """
    from embviz.inspection import inspect, read_tokenizer
    from embviz.inspection.findings import first_screen

    if text is not None:
        text.stat()  # one that is not there is told before anything is measured
    tokenizer = read_tokenizer(model, for_text=text is not None)
    report = inspect(model, tokenizer, text, max_rows=rows, progress=True)
    print("\n".join(map(_printable, first_screen(report).splitlines())), end="\n\n")
    if table or not report.headlines:
        _print_table(report.summary())
        print(f"\n{_printable(report.sentence)}")
    if not html:
        print("--html FILE writes the page with the map, --table prints all measurements.")
    _write_page(html, lambda view: view.inspection_page(report, n_mapped=n_mapped, progress=True).parts)


@commands.command()
@argument("first")
@argument("second")
@option("--tokens", type=int, default=20_000, metavar="N", help="Shared tokens to compare.")
@option("--seed", default=0, help="Seed of halves and random orders.")
@_html
def compare(first: str, second: str, tokens: int, seed: int, html: str | None) -> None:
    """Compare two checkpoints or vector files on shared tokens.

    FIRST is a model as for `embviz inspect`, or a file of word vectors; SECOND for instance its fine-tuned
    version.
    """
    from embviz.inspection import compare

    found = compare(first, second, max_tokens=tokens, seed=seed, progress=True)
    print(f"{found.sentence}\n")
    _print_table(found.table.round(3))
    words = {name: found.moved[name].map(_printable) for name in found.moved if name != "cosine"}
    print("\nTokens that moved most:")
    _print_table(found.moved.assign(**words).head(12).round(3))
    if len(found.changes):
        print("\nMatrices, by their relative change:")
        _print_table(found.changes.sort_values("change", ascending=False).head(12).round(4))
    _write_page(html, lambda view: view.comparison_page(found).parts)


_on_text = option("--text", type=_path, required=True, metavar="FILE", help="Text on which it is measured.")
_strings = option("--strings", type=int, default=8, help="Strings of the text.")


class _SeveralWords(click.Command):
    """A command whose --how takes several words, as in ``--how zero identity``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spread: list[str] = []
        after = False
        for word in args:
            if after and not word.startswith("--") and spread[-1] != "--how":
                spread.append("--how")
            after = word == "--how" or (after and not word.startswith("--"))
            spread.append(word)
        return super().parse_args(ctx, spread)


@commands.command(cls=_SeveralWords)
@argument("model")
@argument("name")
@_on_text
@_strings
@option("--how", multiple=True, default=("zero", "identity"), metavar="HOW...", help="Replacements.")
def patch(model: str, name: str, text: Path, strings: int, how: tuple[str, ...]) -> None:
    """Replace one matrix of a language model, and measure the loss.

    MODEL is a causal language model: a Hugging Face folder or a .gguf file. NAME is the matrix, or parts of
    its name: layers.5.q_proj. HOW is zero, identity, key, permuted, "rank 8", "without head 3"; permuted is
    the control and always measured.
    """
    from embviz.inspection import patch, read_tokenizer

    tokenizer = read_tokenizer(model, for_text=True)
    found = patch(model, name, how, text=text, tokenizer=tokenizer, n_strings=strings, progress=True)
    _print_table(found.round(4))
    print(f"Bits a token; difference from the unchanged model, 95% interval over {strings} strings.")


@commands.command()
@argument("model")
@_on_text
@_strings
@option("--token", metavar="WORD", help="Instead: the states nearest to this token's, after each layer.")
@_html
def states(model: str, text: Path, strings: int, token: str | None, html: str | None) -> None:
    """Measure the hidden states of a language model by layer.

    MODEL is a causal language model: a Hugging Face folder or a .gguf file.
    """
    from embviz.inspection import hidden_states, nearest_states, read_tokenizer

    tokenizer = read_tokenizer(model, for_text=True)
    if token:
        found = nearest_states(model, token, text=text, tokenizer=tokenizer, n_strings=strings)
        return _print_table(found.round(3))
    found = hidden_states(model, text=text, tokenizer=tokenizer, n_strings=strings, progress=True)
    _print_table(found.round(3))
    by_layer = found.pivot(index="layer", columns="quantity").round(4)
    tables = {
        title: by_layer[column].rename_axis(columns=None).reset_index()
        for title, column in (("States of each layer", "value"), ("Their controls", "control"))
    }
    return _write_page(html, lambda view: view.plot_states(found), tables)


@commands.command()
@argument("folder")
@option("--tensor", "tensors", multiple=True, metavar="PATTERN", help="Names of matrices; default all.")
@option("--sketch", type=int, metavar="N", help="Reduce each to N numbers by a random projection.")
@option("--seed", default=0, help="Seed of autoencoders, layouts and random walks.")
@_html
def trace(folder: str, tensors: Sequence[str], sketch: int | None, seed: int, html: str | None) -> None:
    """Draw the trajectories of a run's weights beside random walks.

    FOLDER is a recorded run, or a folder with checkpoints. PATTERN, such as "*.attn.*", can be repeated.
    """
    from embviz.trajectories import run_report

    report = run_report(folder, list(tensors) or None, seed=seed, sketch=sketch, progress=True)
    table = report.summary()
    _print_table(table.assign(tensor=table["tensor"].map(_printable)))
    print(f"In brackets: random walks.\n\n{_printable(report.sentence)}\n{report.limits}")
    steps = [f"{step:,}" for step in report.steps]
    print(f"steps: {'; '.join(steps if len(steps) <= 12 else [*steps[:6], '...', *steps[-3:]])}")
    _write_page(html, lambda view: view.plot_run(report), {"The table; in brackets random walks": table})


@commands.command()
@argument("checkpoint")
@option("--width", type=int, required=True, help="New width of the residual stream.")
@option("--out", metavar="FOLDER", required=True, help="Folder to write; new or empty.")
@option("--text", metavar="FILE", help="Text (UTF-8) on which errors and losses are measured.")
@option("--map", "how", type=MAPS, default="orthonormal", help="A random map, or another one.")
@option("--seed", default=0, help="Seed of the random projection.")
def resize(checkpoint: str, width: int, out: str, text: str | None, how: Any, seed: int) -> None:
    """Change the width of a checkpoint, and report the change in loss.

    CHECKPOINT is a Hugging Face folder of a GPT-2, GPT-NeoX, Llama, Mistral, Qwen 2 or 3, Phi 3, Gemma 1 to
    3, or BERT. A random map loses far more than pca, principal components of the residual stream on the text;
    repeat takes each coordinate several times; zeros appends zeros.
    """
    from embviz.memory import format_bytes
    from embviz.models import resizing as checkpoints

    checkpoints.require_free(out)
    model = checkpoints.load_checkpoint(checkpoint)
    tokens = _read_tokens(checkpoint, text, model.config) if text else None
    found = checkpoints.resize_checkpoint(model, width, how=how, seed=seed, tokens=tokens)
    folder = checkpoints.save_checkpoint(found, out, tokenizer_of=checkpoint)
    table = found.summary()
    exact = table["exact"].map({True: "yes", False: "no"})
    _print_table(table.assign(error=table["error"].map("{:.2g}".format), exact=exact))
    where = "on the text" if text else "on tokens drawn at random"
    of = "logit error" if hasattr(model, "lm_head") or hasattr(model, "cls") else "error of the last states"
    print(f"\nrelative {of} {where}: {found.logit_error:.2g}")
    if found.losses:
        print("nats a token: {:.4f} before, {:.4f} after".format(*found.losses))
    print("parameters: {:,} before, {:,} after".format(*found.n_parameters))
    print("memory: {} before, {} after".format(*map(format_bytes, found.n_bytes)))
    for note in found.notes:
        print(f"- {note}")
    print(f"checkpoint: {folder}")


def _read_tokens(folder: str, file: str, config: Any) -> Any:
    """64 strings of a text in the ids of the tokenizer beside a model, evenly spread: a tensor (B, T + 1)."""
    from pathlib import Path

    import numpy as np
    import torch

    from embviz.corpora.making import read_file, whole_text
    from embviz.inspection import read_tokenizer

    text = read_file(Path(file))
    if (tokenizer := read_tokenizer(folder)) is not None:
        try:
            ids = np.array(whole_text(tokenizer).encode(text, add_special_tokens=False).ids)
        except Exception as error:  # tokenizers raises its own plain one
            raise ValueError(f"the tokenizer of {folder} cannot read {file}: {error}") from error
    elif config.vocab_size == 256:
        ids = np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int64)
    else:
        raise ValueError(
            f"{folder} has no tokenizer.json, and its vocabulary of {config.vocab_size} is not bytes: add one"
        )
    longest = min(256, config.max_position_embeddings, getattr(config, "sliding_window", None) or 256)
    length = min(longest, len(ids) // 2 - 1)
    if length < 2:
        raise ValueError(f"{file} has {len(ids)} tokens: at least six are needed")
    n_strings = min(64, len(ids) // (length + 1))
    starts = np.linspace(0, len(ids) - length - 1, n_strings).astype(int)
    return torch.from_numpy(ids[starts[:, None] + np.arange(length + 1)].astype(np.int64))


@commands.group(no_args_is_help=False)
def data() -> None:
    """List, download and verify data sets."""


_as_json = option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


@data.command("list")
@_as_json
def data_list(as_json: bool) -> None:
    """List data sets, and which are on this machine."""
    from embviz.corpora import registry
    from embviz.memory import format_bytes

    table = registry.list_data()
    if as_json:
        return _print_json(table)
    table["size"] = table["bytes"].map(format_bytes, na_action="ignore")
    return _print_table(table[["name", "part", "kind", "size", "state", "licence"]])


@data.command("fetch")
@argument("names", nargs=-1, required=True, metavar="NAME...")
@option("--accept-licence", is_flag=True, help="Accept the terms of a model that has some.")
@_as_json
def data_fetch(names: tuple[str, ...], accept_licence: bool, as_json: bool) -> int:
    """Download data sets that are not on this machine.

    Exit code 1 if one of them could not be had.
    """
    from embviz.corpora import registry

    table = registry.fetch_data(list(names), accept_licence=accept_licence, progress=not as_json)
    return _print_states(table, as_json, failures={"failed"})


@data.command("verify")
@argument("names", nargs=-1, metavar="[NAME]...")
@_as_json
def data_verify(names: tuple[str, ...], as_json: bool) -> int:
    """Compare the files on this machine with their checksums.

    Exit code 1 if a file is wrong, or one asked for by name is absent.
    """
    from embviz.corpora import registry

    table = registry.verify_data(list(names) or None)
    return _print_states(table, as_json, failures={"wrong", "absent"} if names else {"wrong"})


# --- what is printed ----------------------------------------------------------------------------------


def _write_page(
    html: str | None, draw: Callable[[Any], Any], tables: Mapping[str, pd.DataFrame] | None = None
) -> None:
    """A page that works offline, if one is asked for, and where it is."""
    if html:
        from embviz import view

        view.save_page(draw(view), html, tables=tables)
        print(f"page: {html}")


def _print_states(table: pd.DataFrame, as_json: bool, *, failures: set[str]) -> int:
    if as_json:
        _print_json(table)
    else:
        _print_table(table[["name", "part", "state", "path"]])
        for problem in table.loc[table["state"].isin(failures), "problem"]:
            print(f"embviz: {problem}", file=sys.stderr)
    return int(table["state"].isin(failures).any())


def _print_json(table: pd.DataFrame) -> None:
    import json

    print(json.dumps(json.loads(table.to_json(orient="records")), indent=2, ensure_ascii=False))


def _print_table(table: pd.DataFrame) -> None:
    """A table as :func:`print_rows` prints it, a dash for what is not there."""
    print_rows(table.astype(object).where(table.notna(), "-").to_dict(orient="records"))


def _printable(token: str) -> str:
    r"""A token in one line that moves no cursor and changes no colour.

    >>> print(_printable("a" + chr(9) + "b"))
    a\tb
    """
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in token)


def print_rows(rows: Sequence[Mapping[Any, Any]]) -> None:
    """Columns of text, aligned to the left, as wide as their longest cell; the names on top."""
    if not rows:
        return
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    widths = [max(len(str(line[column])) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main())
