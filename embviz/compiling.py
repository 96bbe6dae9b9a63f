"""Functions that numba compiles; their machine code lies in our cache folder between two starts.

numba stores it in ``compiled/`` below the cache folder, or in ``NUMBA_CACHE_DIR`` where that is set. Where
nothing can be written it is compiled at every start. numba compiles anew when a function's file changes, but
does not notice a change in another file: a compiled function calls only those of its own file.

Whoever can write into that folder can run code as you.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from embviz.storage import cache_folder

NO_FOLDER = "no locator available"  # numba's message where it finds no folder that can be written


def njit(**options: Any) -> Callable[[Callable], Any]:
    """``numba.njit`` with machine code stored in our cache folder, or nowhere if none can be written."""

    def decorate(function: Callable) -> Any:
        try:
            with machine_code_in(cache_folder() / "compiled"):
                return numba.njit(cache=True, **options)(function)
        except RuntimeError as error:
            if NO_FOLDER not in str(error):
                raise
            return numba.njit(**options)(function)

    return decorate


@contextlib.contextmanager
def machine_code_in(folder: Path) -> Iterator[None]:
    """Functions decorated within the block store machine code in `folder`, or in ``NUMBA_CACHE_DIR``."""
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = before or str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


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
