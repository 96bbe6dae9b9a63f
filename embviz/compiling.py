"""Functions that numba compiles, and where their machine code is kept between two starts.

It lies in ``compiled/`` below the cache folder, or in ``NUMBA_CACHE_DIR`` where that is set: a file for each
function and kinds of arguments. Each begins with the SHA-256 of what follows, so a file that is cut short or
altered is compiled anew and written over. Where nothing can be written it is compiled at every start.

The checksum tells damage, not malice: whoever can write into that folder can run code as you.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import llvmlite
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.extending import intrinsic
from numba.np.ufunc.ufuncbuilder import UFuncDispatcher

from embviz.storage import cache_folder, write_if_possible

N_DIGEST = hashlib.sha256().digest_size


def njit(*, cache: bool = True, **options: Any) -> Callable[[Callable], Any]:
    """``numba.njit``, with machine code that is kept in our cache folder and verified when it is loaded."""

    def decorate(function: Callable) -> Any:
        dispatcher = numba.njit(**options)(function)
        if cache:
            dispatcher._cache = _Cache(function)
        return dispatcher

    return decorate


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> tuple[Any, Any]:
    """In compiled code: ask for the cache line of ``array[index]``, `index` a tuple; changes no value."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        made = context.make_array(kind)(context, builder, arguments[0])
        indices = cgutils.unpack_tuple(builder, arguments[1], kind.ndim)
        place = cgutils.get_item_pointer(context, builder, kind, made, indices)
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        called = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        instruction = cgutils.get_or_insert_function(builder.module, called, "llvm.prefetch.p0")
        for_reading, into_second_level, data = word(0), word(2), word(1)
        builder.call(instruction, [builder.bitcast(place, byte), for_reading, into_second_level, data])
        return context.get_dummy_value()

    return types.void(array, index), generate


def compiled_folder() -> Path:
    """Folder of the machine code: ``NUMBA_CACHE_DIR``, or ``compiled/`` below the cache folder."""
    named: str = config.CACHE_DIR  # type: ignore[attr-defined]  # set when numba is imported
    return Path(named) if named else cache_folder() / "compiled"


@contextlib.contextmanager
def keeping_nothing() -> Iterator[None]:
    """Within the block other libraries' functions are made without a place for their machine code.

    numba refuses to make them where nothing can be written; so they are compiled at every start.
    """
    with contextlib.ExitStack() as patches:
        for kind in (Dispatcher, UFuncDispatcher):
            patches.enter_context(mock.patch.object(kind, "enable_caching"))
        yield


class _Files:
    """A file for each key: the digest of its content, then its content."""

    def __init__(self, function: Callable, stamp: str) -> None:
        self._name, self._function, self._stamp = function.__qualname__, function, stamp

    def load(self, key: Any) -> Any:
        """What was saved under `key`; None if it is absent, unreadable or damaged."""
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        digest, data = content[:N_DIGEST], content[N_DIGEST:]
        return pickle.loads(data) if hashlib.sha256(data).digest() == digest else None

    def save(self, key: Any, data: Any) -> None:
        content = dumps(data)
        sealed = hashlib.sha256(content).digest() + content
        write_if_possible(self._path(key), lambda path: path.write_bytes(sealed))

    def flush(self) -> None:
        """Nothing is kept in memory."""

    def _path(self, key: Any) -> Path:
        versions = (numba.__version__, llvmlite.__version__, sys.implementation.cache_tag)
        digest = hashlib.sha256(repr((versions, self._stamp, key)).encode()).hexdigest()
        return compiled_folder() / f"{self._name}-{digest[:32]}.bin"


class _Place(_CacheLocator):
    """What numba asks of a place for machine code; the files are ours."""

    def __init__(self, function: Callable) -> None:
        self._function, self._py_file = function, inspect.getfile(function)

    @classmethod
    def from_function(cls, function: Callable, file: str) -> _Place:
        return cls(function)

    def ensure_cache_path(self) -> None:
        """It is made when something is written."""

    def get_cache_path(self) -> str:
        return ""

    def get_source_stamp(self) -> str:
        """Digests of the function's source and of the files of the compiled functions that it may call."""
        called = [value for value in self._function.__globals__.values() if hasattr(value, "py_func")]
        files = {self._py_file, *(inspect.getfile(value.py_func) for value in called)}
        return " ".join(sorted(map(_digest, files)))

    def get_disambiguator(self) -> str:
        return ""


class _Code(CompileResultCacheImpl):
    """How numba turns machine code into bytes and back."""

    _locator_classes = [_Place]  # type: ignore[list-item]  # noqa: RUF012


class _Cache(FunctionCache):
    """Numba's, over our files."""

    _impl_class = _Code

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        self._cache_file: Any = _Files(function, self._impl.locator.get_source_stamp())


@functools.cache
def _digest(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
