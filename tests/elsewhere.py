"""Run a command as on other processors: `python -m tests.elsewhere [SETTING ...] -- COMMAND`.

The kernels of numerical libraries differ between processors, and with them last digits, ties, and all that
follows from these. Each setting limits the kernels by environment variables, prints what a fresh process then
has, and runs the command. The exit status is the first that is not 0. No variable changes what a compiler has
put into a library for every processor; MKL and oneDNN, which are part of PyTorch, don't say what they use.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import time

LEAST = {
    "ATEN_CPU_CAPABILITY": "default",  # PyTorch's kernels
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",  # PyTorch's matrix products
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": "Prescott",  # matrix products of NumPy and SciPy
    "NUMBA_CPU_NAME": "generic",
    "ARROW_USER_SIMD_LEVEL": "NONE",
    "OMP_NUM_THREADS": "1",
}
SETTINGS = {
    "machine": {"OMP_NUM_THREADS": "1"},
    "least": LEAST,  # and without the features by which NumPy chooses its kernels
    "two_threads": {"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "2"},
}


def numpy_features() -> str:
    """The features by which NumPy chooses its kernels in this process; naming others would make it warn."""
    import numpy as np

    with contextlib.redirect_stdout(io.StringIO()) as shown:
        np.show_runtime()
    found = re.search(r"'found': \[(.*?)\]", shown.getvalue(), re.DOTALL)
    assert found, shown.getvalue()
    return " ".join(re.findall(r"\w+", found[1]))


def print_kernels() -> None:
    """What the numerical libraries of this process compute with."""
    import llvmlite.binding
    import pyarrow
    import scipy.linalg
    import threadpoolctl
    import torch
    from numba.core import config

    torch.randn(200, 200) @ torch.randn(200, 200)
    pools = threadpoolctl.threadpool_info()
    for one in pools:
        print(f"  {one['internal_api']} {one.get('architecture', '')}: {one['num_threads']} threads")
    print(f"  NumPy's features beside its baseline: {numpy_features() or 'none'}")
    print(f"  PyTorch: {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads")
    print(f"  numba: {config.CPU_NAME or llvmlite.binding.get_host_cpu_name()}")
    print(f"  Arrow: {pyarrow.runtime_info().simd_level}; SciPy {scipy.__version__}", flush=True)


def main(arguments: list[str]) -> int:
    """Run the command in each setting that is named, or in all of them."""
    if arguments == ["kernels"]:
        print_kernels()
        return 0
    split = arguments.index("--")
    status = 0
    for name in arguments[:split] or SETTINGS:
        setting = dict(SETTINGS[name])
        if name == "least":
            setting["NPY_DISABLE_CPU_FEATURES"] = numpy_features()
        print(f"{name}: {' '.join(f'{key}={value}' for key, value in setting.items())}", flush=True)
        environment = os.environ | setting
        subprocess.run([sys.executable, "-m", "tests.elsewhere", "kernels"], env=environment, check=True)
        start = time.monotonic()
        code = subprocess.run(arguments[split + 1 :], env=environment, check=False).returncode
        print(f"{name}: exit status {code} after {time.monotonic() - start:.0f} s", flush=True)
        status = status or code
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
