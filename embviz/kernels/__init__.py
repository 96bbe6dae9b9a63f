"""The kernel between log co-occurrence D and a Gram matrix W of tied embeddings, and formulas for its row.

K = ifft2(fft2(W) / fft2(D)), word ids on both axes; fft2(D)[a, b] sums D[i, j] exp(-2 pi i (a i + b j) / V).
What follows for every W and D, and is tested:

- K exists and reconstructs W for every W, if fft2(D) has no zero; nothing about W follows from that.
- K is circulant, K[i, j] = k0[j - i], just if fft2(K) vanishes off a + b = 0 mod V, just if W is circulant.
- For W = c I, K is circulant, and k0 = c ifft(1 / fft(s)), s(m) = sum of D along the m-th cyclic diagonal.
- For W = I + noise the circulant score is near 1 / (1 + spread^2 gain), :func:`expected_score`, and the
  cosine of k0 with the identity's near its root: where the gain is small, random embeddings score high.
- Renumber the words i -> u i + s mod V, u prime to V: the circulant score stays, and so does k0 for u = 1,
  whichever word is then the first. Other orders change both.
- D convolved with a circulant is a circulant: embeddings made from one row know of a word its id alone.
- Where D is circulant itself, the matrix power D^(eps - 1) is V times the deconvolution of D^eps by D.
"""

from embviz.kernels.embeddings import TrainingFree, training_free_embeddings
from embviz.kernels.extraction import (
    Extraction,
    circulant,
    circulant_scores,
    circulant_share,
    cyclic_diagonals,
    expected_score,
    extract_kernel,
    noise_gain,
    reconstruct,
    reconstruct_from_row,
    tied_gram,
)
from embviz.kernels.formulas import TABLE_2, Candidate, candidates
from embviz.kernels.rows import (
    EPS,
    SAFE,
    ClampedShare,
    Estimate,
    Form,
    TaylorTerms,
    Unit,
    alpha_scan,
    clamped_share,
    deconvolve,
    deconvolved_row,
    estimate,
    impulse_row,
    k0_eigen,
    k0_fft,
    responses,
    row_identity,
    taylor_terms,
)
from embviz.kernels.spectrum import (
    FLOOR,
    Logarithm,
    Negative,
    Spectrum,
    conventions,
    decompose,
    log_counts,
    log_matrix,
    matrix_power,
    negative_projector,
    permute,
    spectral_power,
)
from embviz.kernels.symmetries import invariances

__all__ = [
    "EPS",
    "FLOOR",
    "SAFE",
    "TABLE_2",
    "Candidate",
    "ClampedShare",
    "Estimate",
    "Extraction",
    "Form",
    "Logarithm",
    "Negative",
    "Spectrum",
    "TaylorTerms",
    "TrainingFree",
    "Unit",
    "alpha_scan",
    "candidates",
    "circulant",
    "circulant_scores",
    "circulant_share",
    "clamped_share",
    "conventions",
    "cyclic_diagonals",
    "decompose",
    "deconvolve",
    "deconvolved_row",
    "estimate",
    "expected_score",
    "extract_kernel",
    "impulse_row",
    "invariances",
    "k0_eigen",
    "k0_fft",
    "log_counts",
    "log_matrix",
    "matrix_power",
    "negative_projector",
    "noise_gain",
    "permute",
    "reconstruct",
    "reconstruct_from_row",
    "responses",
    "row_identity",
    "spectral_power",
    "taylor_terms",
    "tied_gram",
    "training_free_embeddings",
]
