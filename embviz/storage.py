"""Where things lie on disk, and how a file is written so that it is whole or absent.

Folders, each overridable by an environment variable:

==================  ====================================  =========================================
what                variable                              default
==================  ====================================  =========================================
claims, registry    (none)                                ``data/`` of the checkout or the package
stored results      ``EMBVIZ_RESULTS_DIR``                ``data/results`` of the checkout
downloads, caches   ``EMBVIZ_CACHE_DIR``                  the user's cache folder
local mirror        ``EMBVIZ_DATA_DIR``                   none
==================  ====================================  =========================================
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import platformdirs


def data_folder() -> Path:
    """Folder of ``registry.toml`` and ``claims/``: the checkout's ``data``, or the installed package's."""
    package = Path(__file__).resolve().parent
    for folder in (package.parent / "data", package / "data"):
        if (folder / "registry.toml").is_file():
            return folder
    raise FileNotFoundError(
        f"no data/registry.toml beside {package}: reinstall embviz, or run from a checkout of it"
    )


def claims_folder() -> Path:
    """Folder of the claims: ``claims`` in :func:`data_folder`."""
    return data_folder() / "claims"


def results_folder() -> Path:
    """Folder of stored results: ``EMBVIZ_RESULTS_DIR``, or ``results`` in :func:`data_folder`."""
    named = os.environ.get("EMBVIZ_RESULTS_DIR")
    return Path(named).expanduser() if named else data_folder() / "results"


def cache_folder() -> Path:
    """Folder for downloads and derived caches: ``EMBVIZ_CACHE_DIR``, or the user's cache folder."""
    named = os.environ.get("EMBVIZ_CACHE_DIR")
    return Path(named).expanduser() if named else Path(platformdirs.user_cache_dir("embviz"))


def mirror_folder() -> Path | None:
    """Local mirror of data files named by ``EMBVIZ_DATA_DIR``, or None when the variable is unset."""
    named = os.environ.get("EMBVIZ_DATA_DIR")
    return Path(named).expanduser() if named else None


def file_checksum(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success flush it to disk and rename it into place.

    A reader sees the old file or the new one, never a part. On an error the temporary file is
    removed and `path` stays as it was. Two writers may race: the last rename wins, whole.

    Raises
    ------
    OSError
        As the file system tells it (disk full, no permission), naming the file; `path` is untouched.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # the suffix stays last, since writers such as numpy.save choose by it
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.{secrets.token_hex(4)}{path.suffix}")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
