"""The command line, ``embviz spectrum | map | inspect | compare | trace | resize | data | ...``."""

from __future__ import annotations

import argparse
import codecs
import io
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
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


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        words = message.replace("'", " ").split()
        super().error(next(filter(None, map(GONE.get, words)), message))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.

    An error that the user can do something about is one line on standard error and exit code 1;
    ``embviz --debug`` shows where it came from.
    """
    _write_any_letter()
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        code = command(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader, head or less, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 0
    except (ValueError, OSError, ImportError, MemoryError) as error:
        if arguments.debug:
            raise
        print(f"embviz: {_said(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("embviz: stopped", file=sys.stderr)
        return 130


def _said(error: Exception) -> str:
    """An error in one line; for a missing library with the command that installs it."""
    line = " ".join(str(error).split()) or type(error).__name__
    if type(error) is ModuleNotFoundError and error.name:  # an experiment of the project's own imports it
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


def _parser() -> argparse.ArgumentParser:
    import embviz

    parser = _Parser(
        prog="embviz",
        description="Measure the geometry of embeddings: of a text, word vectors, a model or a training run.",
    )
    parser.add_argument("--version", action="version", version=f"embviz {embviz.__version__}")
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_spectrum(commands)
    _add_map(commands)
    _add_inspect(commands)
    _add_compare(commands)
    _add_patch_and_states(commands)
    _add_trace(commands)
    _add_resize(commands)
    _add_data(commands)
    return parser


def _add_spectrum(commands: Any) -> None:
    spectrum = commands.add_parser("spectrum", help="compute the PMI spectrum of your text, with controls")
    spectrum.add_argument("files", nargs="+", metavar="FILE", help="a text file; .gz is unpacked")
    spectrum.add_argument("--window", type=int, default=5, help="words on each side; default 5")
    spectrum.add_argument("--min-count", type=int, default=5, help="smallest count of a word; default 5")
    spectrum.add_argument(
        "--words", type=int, default=2_000, help="number of most frequent words used; default 2000"
    )
    spectrum.add_argument(
        "--tokenizer",
        default="unicode",
        choices=("unicode", "text8"),
        help="words of any script (unicode, default), or a-z and digits spelled out (text8)",
    )
    spectrum.add_argument("--encoding", default="utf-8", help="encoding of the files; default utf-8")
    spectrum.add_argument("--html", metavar="FILE", help="write a page that works offline")
    spectrum.set_defaults(command=show_spectrum)


def _add_map(commands: Any) -> None:
    mapped = commands.add_parser("map", help="draw the map of word vectors, or of a model's whole vocabulary")
    mapped.add_argument(
        "vectors",
        metavar="VECTORS",
        help="a file of word vectors, a Hugging Face folder, a .gguf file, or the name of a released model",
    )
    chosen = mapped.add_mutually_exclusive_group()
    chosen.add_argument("--first", type=_positive, metavar="N", help="the first N words; default all")
    chosen.add_argument(
        "--matching", metavar="REGEX", type=_pattern, help="words in which the regular expression is found"
    )
    chosen.add_argument("--text", metavar="FILE", help="the words of a text (UTF-8), frequent words first")
    mapped.add_argument(
        "--layout",
        choices=("neighbors", "pca"),
        default="neighbors",
        help="UMAP from nearest neighbours (default), or principal components",
    )
    mapped.add_argument(
        "--color", choices=("kind", "cluster", "length"), help="colour by this first; default kind"
    )
    mapped.add_argument("--raw", action="store_true", help="do not subtract the mean vector")
    mapped.add_argument("--focus", metavar="WORD", help="a word pointed at from the start")
    mapped.add_argument("--seed", type=int, default=0, help="seed of neighbours and layout; default 0")
    mapped.add_argument("--html", metavar="FILE", required=True, help="page to write; it works offline")
    mapped.set_defaults(command=show_map)


def _add_inspect(commands: Any) -> None:
    inspect = commands.add_parser("inspect", help="measure the weights of your model, with controls")
    inspect.add_argument(
        "model",
        metavar="MODEL",
        help="a Hugging Face folder, a file (.safetensors, .gguf, .npy, a state_dict), or the name of a "
        "released model that `embviz data fetch` fetched",
    )
    inspect.add_argument(
        "--text", metavar="FILE", help="text for the next-token loss, and the kernel of tied embeddings"
    )
    inspect.add_argument(
        "--rows",
        type=int,
        default=500,
        help="rows whose nearest rows are looked for among all rows; default 500",
    )
    inspect.add_argument(
        "--map",
        type=_amount_or_all,
        default=4_000,
        metavar="N",
        help="tokens of a larger vocabulary on the page's map, of each kind its first ones; default 4000; "
        "`all` takes minutes for 262,144; 0 draws none",
    )
    inspect.add_argument("--table", action="store_true", help="print all measurements")
    inspect.add_argument("--html", metavar="FILE", help="write a page that works offline")
    inspect.set_defaults(command=show_inspection)


def _add_compare(commands: Any) -> None:
    compare = commands.add_parser(
        "compare", help="compare two checkpoints or vector files on the tokens that they share"
    )
    models = "a model as for `embviz inspect`, or a file of word vectors"
    compare.add_argument("first", metavar="FIRST", help=models)
    compare.add_argument("second", metavar="SECOND", help="such as its fine-tuned version")
    compare.add_argument(
        "--tokens", type=int, default=20_000, metavar="N", help="shared tokens to compare; default 20000"
    )
    compare.add_argument("--seed", type=int, default=0, help="seed of halves and random orders; default 0")
    compare.add_argument("--html", metavar="FILE", help="write a page that works offline")
    compare.set_defaults(command=show_comparison)


def _add_patch_and_states(commands: Any) -> None:
    patch = commands.add_parser("patch", help="replace one matrix of a language model, and measure the loss")
    states = commands.add_parser(
        "states", help="measure the hidden states of a language model by layer, on a text"
    )
    for command in (patch, states):
        command.add_argument(
            "model", metavar="MODEL", help="a causal language model: a Hugging Face folder or a .gguf file"
        )
        command.add_argument("--text", metavar="FILE", required=True, help="text on which it is measured")
        command.add_argument("--strings", type=int, default=8, help="strings of the text; default 8")
    patch.add_argument("name", metavar="NAME", help="the matrix, or parts of its name: layers.5.q_proj")
    patch.add_argument(
        "--how",
        nargs="+",
        default=["zero", "identity"],
        metavar="HOW",
        help='zero, identity, key, permuted, "rank 8", "without head 3"; default zero and identity; '
        "permuted is the control and always measured",
    )
    patch.set_defaults(command=show_patch)
    states.add_argument(
        "--token", metavar="WORD", help="instead: the states nearest to this token's, after each layer"
    )
    states.add_argument("--html", metavar="FILE", help="write a page that works offline")
    states.set_defaults(command=show_states)


def _amount_or_all(text: str) -> int | None:
    """A whole number from 0 on, or None for `all`."""
    if text != "all" and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number from 0 on nor `all`")
    return None if text == "all" else int(text)


def _pattern(text: str) -> re.Pattern[str]:
    """A regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from error


def _positive(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def _add_trace(commands: Any) -> None:
    trace = commands.add_parser(
        "trace", help="draw the trajectories of the weights in your training run, beside random walks"
    )
    trace.add_argument("folder", metavar="FOLDER", help="a recorded run, or a folder with checkpoints")
    trace.add_argument(
        "--tensor",
        metavar="PATTERN",
        action="append",
        help='names of matrices, such as "*.attn.*"; can be repeated; default all',
    )
    trace.add_argument(
        "--sketch",
        type=int,
        metavar="N",
        help="reduce each matrix to N numbers by a random projection; default all numbers",
    )
    trace.add_argument(
        "--seed", type=int, default=0, help="seed of autoencoders, layouts and random walks; default 0"
    )
    trace.add_argument("--html", metavar="FILE", help="write a page that works offline")
    trace.set_defaults(command=show_trace)


def _add_resize(commands: Any) -> None:
    resize = commands.add_parser(
        "resize", help="change the width of a Hugging Face checkpoint, and report the change in loss"
    )
    resize.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="folder of a GPT-2, GPT-NeoX, Llama, Mistral, Qwen 2 or 3, Phi 3, Gemma 1 to 3, or BERT",
    )
    resize.add_argument("--width", type=int, required=True, help="new width of the residual stream")
    resize.add_argument("--out", metavar="FOLDER", required=True, help="folder to write; new or empty")
    resize.add_argument("--text", metavar="FILE", help="text (UTF-8) on which errors and losses are measured")
    resize.add_argument(
        "--map",
        choices=("orthonormal", "gaussian", "rademacher", "sparse", "hadamard", "pca", "repeat", "zeros"),
        default="orthonormal",
        help="a random map, by default of orthonormal rows; pca: principal components of the residual stream "
        "on the text, which lose far less; repeat: each coordinate several times; zeros: zeros appended",
    )
    resize.add_argument("--seed", type=int, default=0, help="seed of the random projection; default 0")
    resize.set_defaults(command=resize_model)


def _add_data(commands: Any) -> None:
    data = commands.add_parser("data", help="list, download and verify data sets")
    verbs = data.add_subparsers(metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="list data sets, and which are on this machine")
    listing.set_defaults(command=data_list)
    fetch = verbs.add_parser("fetch", help="download data sets that are not on this machine")
    fetch.add_argument("names", nargs="+", metavar="NAME", help="a data set")
    fetch.add_argument(
        "--accept-licence", action="store_true", help="accept the terms of a model that has some"
    )
    fetch.set_defaults(command=data_fetch)
    verify = verbs.add_parser("verify", help="compare the files on this machine with their checksums")
    verify.add_argument("names", nargs="*", metavar="NAME", help="a data set; default all")
    verify.set_defaults(command=data_verify)
    for verb in (listing, fetch, verify):
        verb.add_argument("--json", action="store_true", help="print JSON instead of a table")


def show_spectrum(arguments: argparse.Namespace) -> int:
    """``embviz spectrum FILE``: eigenvalues of PMI, their mirror image, and the same for shuffled tokens."""
    from pathlib import Path

    from embviz.corpora import make_corpus
    from embviz.words import spectrum_report

    corpus = make_corpus(
        [Path(file) for file in arguments.files],
        name=Path(arguments.files[0]).stem,
        tokenizer=arguments.tokenizer,
        encoding=arguments.encoding,
    )
    report = spectrum_report(
        corpus, window=arguments.window, min_count=arguments.min_count, max_vocab=arguments.words
    )
    _print_table(report.scores.round({"positive_share": 3, "mirror_distance": 3}))
    print(f"\n{report.sentence}")
    if arguments.html:
        from embviz import view

        _write_page(view.plot_spectrum(report), arguments.html)
    return 0


def show_map(arguments: argparse.Namespace) -> int:
    """``embviz map VECTORS --html FILE``: a page with the map of all words, or of some."""
    from pathlib import Path

    from embviz import view

    words: Any = Path(arguments.text) if arguments.text else arguments.matching or arguments.first or "all"
    picture = view.map_of(
        _read_vectors(arguments.vectors),
        words,
        layout=arguments.layout,
        color=arguments.color,
        center=not arguments.raw,
        focus=arguments.focus,
        seed=arguments.seed,
        progress=True,
    )
    print(picture.caption)
    _write_page(picture, arguments.html)
    return 0


def _read_vectors(source: str) -> Any:
    """Word vectors of a file, or the input embedding of a model with the tokens of its tokenizer."""
    from embviz.corpora.registry import resolve_path
    from embviz.words import WordVectors

    path = resolve_path(source)
    if not path.is_dir() and path.suffix != ".gguf":
        return WordVectors.load(path)
    from embviz.inspection import model_vectors

    return model_vectors(path)


def show_inspection(arguments: argparse.Namespace) -> int:
    """``embviz inspect MODEL``: the table of its weights; a tokenizer is taken from the model's folder."""
    from pathlib import Path

    from embviz.inspection import inspect, read_tokenizer
    from embviz.inspection.findings import first_screen

    if arguments.html:
        from embviz import view  # says what is missing before anything is measured
    corpus = Path(arguments.text) if arguments.text else None
    if corpus is not None:
        corpus.stat()  # one that is not there is told before anything is measured
    report = inspect(
        arguments.model,
        read_tokenizer(arguments.model, for_text=corpus is not None),
        corpus,
        max_rows=arguments.rows,
        progress=True,
    )
    print("\n".join(map(_printable, first_screen(report).splitlines())))
    print()
    if arguments.table or not report.headlines:
        _print_table(report.summary())
        print(f"\n{_printable(report.sentence)}")
    if arguments.html:
        page = view.inspection_page(report, n_mapped=arguments.map, progress=True)
        page.save(arguments.html)
        print(f"page: {arguments.html}")
    else:
        print("--html FILE writes the page with the map, --table prints all measurements.")
    return 0


def show_comparison(arguments: argparse.Namespace) -> int:
    """``embviz compare FIRST SECOND``: alignment, moved tokens, neighbours kept, changed matrices."""
    from embviz.inspection import compare

    if arguments.html:
        from embviz import view  # says what is missing before anything is measured
    found = compare(
        arguments.first, arguments.second, max_tokens=arguments.tokens, seed=arguments.seed, progress=True
    )
    print(f"{found.sentence}\n")
    _print_table(found.table.round(3))
    words = {name: found.moved[name].map(_printable) for name in found.moved if name != "cosine"}
    print("\nTokens that moved most:")
    _print_table(found.moved.assign(**words).head(12).round(3))
    if len(found.changes):
        print("\nMatrices, by their relative change:")
        _print_table(found.changes.sort_values("change", ascending=False).head(12).round(4))
    if arguments.html:
        view.comparison_page(found).save(arguments.html)
        print(f"page: {arguments.html}")
    return 0


def show_patch(arguments: argparse.Namespace) -> int:
    """``embviz patch MODEL NAME --text FILE``: the loss with one matrix replaced, in bits a token."""
    from pathlib import Path

    from embviz.inspection import patch, read_tokenizer

    found = patch(
        arguments.model,
        arguments.name,
        arguments.how,
        text=Path(arguments.text),
        tokenizer=read_tokenizer(arguments.model, for_text=True),
        n_strings=arguments.strings,
        progress=True,
    )
    _print_table(found.round(4))
    print(
        f"Bits a token; difference from the unchanged model, 95% interval over {arguments.strings} strings."
    )
    return 0


def show_states(arguments: argparse.Namespace) -> int:
    """``embviz states MODEL --text FILE``: isotropy, nearest states and the logit lens by layer."""
    from pathlib import Path

    from embviz.inspection import hidden_states, nearest_states, read_tokenizer

    if arguments.html:
        from embviz import view  # says what is missing before anything is measured
    text, tokenizer = Path(arguments.text), read_tokenizer(arguments.model, for_text=True)
    n_strings = arguments.strings
    if arguments.token:
        found = nearest_states(
            arguments.model, arguments.token, text=text, tokenizer=tokenizer, n_strings=n_strings
        )
        _print_table(found.round(3))
        return 0
    found = hidden_states(arguments.model, text=text, tokenizer=tokenizer, n_strings=n_strings, progress=True)
    _print_table(found.round(3))
    if arguments.html:
        tables = {
            title: found.pivot(index="layer", columns="quantity", values=column)
            .rename_axis(columns=None)
            .reset_index()
            .round(4)
            for title, column in (("States of each layer", "value"), ("Their controls", "control"))
        }
        _write_page(view.plot_states(found), arguments.html, tables)
    return 0


def show_trace(arguments: argparse.Namespace) -> int:
    """``embviz trace FOLDER``: the trajectory of each matrix, its clusters, and the same for random walks."""
    from embviz.trajectories import run_report

    if arguments.html:
        from embviz import view  # says what is missing before anything is traced
    report = run_report(
        arguments.folder, arguments.tensor, seed=arguments.seed, sketch=arguments.sketch, progress=True
    )
    table = report.summary()
    _print_table(table.assign(tensor=table["tensor"].map(_printable)))
    print(f"In brackets: random walks.\n\n{_printable(report.sentence)}\n{report.limits}")
    steps = [f"{step:,}" for step in report.steps]
    print(f"steps: {'; '.join(steps if len(steps) <= 12 else [*steps[:6], '...', *steps[-3:]])}")
    if arguments.html:
        _write_page(view.plot_run(report), arguments.html, {"The table; in brackets random walks": table})
    return 0


def _write_page(pictures: Any, path: str, tables: Mapping[str, pd.DataFrame] | None = None) -> None:
    """A page that works offline, and where it is."""
    from embviz import view

    view.save_page(pictures, path, tables=tables)
    print(f"page: {path}")


def resize_model(arguments: argparse.Namespace) -> int:
    """``embviz resize CHECKPOINT --width M --out FOLDER``: the checkpoint at that width, and its report."""
    from embviz.memory import format_bytes
    from embviz.models.resizing_checkpoints import (
        load_checkpoint,
        require_free,
        resize_checkpoint,
        save_checkpoint,
    )

    require_free(arguments.out)
    model = load_checkpoint(arguments.checkpoint)
    tokens = _read_tokens(arguments.checkpoint, arguments.text, model.config) if arguments.text else None
    found = resize_checkpoint(model, arguments.width, how=arguments.map, seed=arguments.seed, tokens=tokens)
    folder = save_checkpoint(found, arguments.out, tokenizer_of=arguments.checkpoint)
    table = found.summary()
    shown = {
        "error": table["error"].map("{:.2g}".format),
        "exact": table["exact"].map({True: "yes", False: "no"}),
    }
    _print_table(table.assign(**shown))
    text = "on the text" if arguments.text else "on tokens drawn at random"
    of = "logit error" if hasattr(model, "lm_head") or hasattr(model, "cls") else "error of the last states"
    print(f"\nrelative {of} {text}: {found.logit_error:.2g}")
    if found.losses:
        print("nats a token: {:.4f} before, {:.4f} after".format(*found.losses))
    print("parameters: {:,} before, {:,} after".format(*found.n_parameters))
    print("memory: {} before, {} after".format(*map(format_bytes, found.n_bytes)))
    for note in found.notes:
        print(f"- {note}")
    print(f"checkpoint: {folder}")
    return 0


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


def data_list(arguments: argparse.Namespace) -> int:
    """``embviz data list``: the registry's files, and which of them are on this machine."""
    from embviz.corpora import registry
    from embviz.memory import format_bytes

    table = registry.list_data()
    if arguments.json:
        return _print_json(table)
    table["size"] = table["bytes"].map(format_bytes, na_action="ignore")
    _print_table(table[["name", "part", "kind", "size", "state", "licence"]])
    return 0


def data_fetch(arguments: argparse.Namespace) -> int:
    """``embviz data fetch``: exit code 1 if one of the data sets could not be had."""
    from embviz.corpora import registry

    table = registry.fetch_data(
        arguments.names, accept_licence=arguments.accept_licence, progress=not arguments.json
    )
    return _print_states(table, arguments, failures={"failed"})


def data_verify(arguments: argparse.Namespace) -> int:
    """``embviz data verify``: exit code 1 if a file is wrong, or one asked for by name is absent."""
    from embviz.corpora import registry

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
    """A table as :func:`_print_rows` prints it, a dash for what is not there."""
    _print_rows(table.astype(object).where(table.notna(), "-").to_dict(orient="records"))


def _printable(token: str) -> str:
    r"""A token in one line that moves no cursor and changes no colour.

    >>> print(_printable("a" + chr(9) + "b"))
    a\tb
    """
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in token)


def _print_rows(rows: Sequence[Mapping[Any, Any]]) -> None:
    """Columns of text, aligned to the left, as wide as their longest cell; the names on top."""
    if not rows:
        return
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    widths = [max(len(str(line[column])) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main())
