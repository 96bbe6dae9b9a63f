"""Models that Transformers makes of a folder: quietly, without the folder's code, and without the network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from embviz.imports import require


@contextmanager
def quietly() -> Iterator[None]:
    """No bars of progress, and no reports of what is told in our words."""
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


def load_pretrained(folder: Path, loader: str, **options: Any) -> tuple[Any, list[str]]:
    """The model of a folder, all of its arrays read, and the names of arrays that have no place in it.

    `loader` is a class of Transformers, such as "AutoModelForCausalLM", with the options of its
    ``from_pretrained``. A model of which an array is missing, or of another shape, is refused.
    """
    require("adapters", "transformers", purpose="a model of Hugging Face")
    import transformers

    try:
        with quietly():
            model, loading = getattr(transformers, loader).from_pretrained(
                folder, local_files_only=True, trust_remote_code=False, output_loading_info=True,
                ignore_mismatched_sizes=True, **options,
            )  # fmt: skip
    except (MemoryError, ImportError):
        raise
    except Exception as error:  # of any type, from the configuration or the files
        reason = " ".join(str(error).split())[:200] or "no reason is given"
        raise ValueError(
            f"Transformers makes no model of {folder} ({type(error).__name__}: {reason}): mend config.json, "
            "or get the files again"
        ) from error
    misfits = [key if isinstance(key, str) else str(key[0]) for key in loading["mismatched_keys"]]
    if misfits:
        raise ValueError(
            f"{min(misfits)} in {folder} has another shape than its config.json gives: mend that"
        )
    if missing := loading["missing_keys"]:
        raise ValueError(f"{folder} lacks {min(missing)}, and others perhaps: it would start at random")
    return model, sorted(loading["unexpected_keys"])


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Without dropout; afterwards every part is in the mode in which it was."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode
