"""What the kernel paper says of K and of its row k0: fourteen formulas, their terms, embeddings.

What follows for every D, and is tested, beside what :mod:`embviz.kernels` says of every W and D:

- For W = c I, K is circulant, and k0 = c ifft(1 / fft(s)), s(m) = sum of D along the m-th cyclic diagonal.
- Renumber the words i -> i + s mod V: k0 in the FFT form stays, whichever word is then the first.
- For W = I + noise the circulant score is near 1 / (1 + spread^2 gain), :func:`expected_score`: where the
  gain is small, random embeddings score high.
- D convolved with a circulant is a circulant: embeddings made from one row know of a word its id alone.
- Where D is circulant itself, the matrix power D^(eps - 1) is V times the deconvolution of D^eps by D.
"""

from book.kernel.theory.circulants import (
    circulant,
    circulant_share,
    cyclic_diagonals,
    reconstruct,
    reconstruct_from_row,
)
from book.kernel.theory.embeddings import training_free_embeddings
from book.kernel.theory.formulas import TABLE_2, candidates
from book.kernel.theory.rows import (
    EPS,
    SAFE,
    Form,
    alpha_scan,
    clamped_share,
    deconvolved_row,
    impulse_row,
    k0_eigen,
    k0_fft,
    responses,
    row_identity,
    taylor_terms,
)
from book.kernel.theory.scores import circulant_scores, expected_score, noise_gain
from book.kernel.theory.spectrum import (
    FLOOR,
    Logarithm,
    Spectrum,
    decompose,
    log_values,
    matrix_power,
    permute,
    spectral_power,
)

__all__ = [
    "EPS",
    "FLOOR",
    "SAFE",
    "TABLE_2",
    "Form",
    "Logarithm",
    "Spectrum",
    "alpha_scan",
    "candidates",
    "circulant",
    "circulant_scores",
    "circulant_share",
    "clamped_share",
    "cyclic_diagonals",
    "decompose",
    "deconvolved_row",
    "expected_score",
    "impulse_row",
    "k0_eigen",
    "k0_fft",
    "log_values",
    "matrix_power",
    "noise_gain",
    "permute",
    "reconstruct",
    "reconstruct_from_row",
    "responses",
    "row_identity",
    "spectral_power",
    "taylor_terms",
    "training_free_embeddings",
]
