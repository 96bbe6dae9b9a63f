"""k0, the first row of a kernel, from D alone: both listings, scans over powers, the terms of log D.

Both forms are linear in functions of D's eigenvalues, so that :func:`responses`, one column per eigenpair,
turns a change of eps, of the clamp or of the treatment of negative eigenvalues into one product.

Where fft2(D) has zeros no quotient is defined. The listing divides by 1e-10 there, which makes rounding in
the numerator 1e10 times as large. Such a D is refused, with the number of its zeros, unless `safe` is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike

from book.kernel.theory.circulants import cyclic_diagonals
from book.kernel.theory.spectrum import (
    FLOOR,
    Given,
    Logarithm,
    Negative,
    checked_eps,
    log_values,
    matrix_of,
    matrix_power,
    one_eps,
    spectral_power,
    spectrum_of,
    transform_of,
)
from embviz.kernels import rounding

Form = Literal["eigen", "fft"]

EPS = 0.003  # the paper's
SAFE = 1e-10  # the FFT listing's least |fft2(D)|


def k0_eigen(
    D: Given, eps: float = EPS, *, negative: Negative = "clamp", floor: float = FLOOR, row: int = 0
) -> np.ndarray:
    """A row (V,) of the matrix power D^(eps - 1), 0 < eps <= 1; `row` is which word's row is "the first".

    The kernel paper, section 1 and Appendix B, first function. `negative` and `floor` as for
    :func:`spectral_power`.
    """
    power, spectrum = one_eps(eps) - 1, spectrum_of(D)
    weights = spectral_power(spectrum.values, power, negative=negative, floor=floor)
    return spectrum.vectors @ (weights * spectrum.vectors[row])


def k0_fft(
    D: Given,
    eps: float = EPS,
    *,
    negative: Negative = "clamp",
    floor: float = FLOOR,
    row: int = 0,
    safe: float | None = None,
) -> np.ndarray:
    """A row (V,) of ifft2(fft2(D^eps) / fft2(D)); the other arguments as for :func:`k0_eigen`.

    `safe` replaces fft2(D) wherever its magnitude is not larger; ``theory.SAFE`` is the listing's. Without
    it, D is refused if fft2(D) is 0 somewhere, below rounding, or at most 1e-10 in magnitude.

    The kernel paper, section 9 and Appendix B, second function.
    """
    one_eps(eps)  # before a spectrum is computed
    spectrum = spectrum_of(D)
    power = matrix_power(spectrum, eps, negative=negative, floor=floor)
    return deconvolved_row(power, spectrum, row=row, safe=safe)


def divisors(transform: np.ndarray, V: int, safe: float | None, name: str = "fft2(D)") -> np.ndarray:
    """A transform (..., V // 2 + 1) to divide by: `safe` in place of its zeros, or a refusal."""
    if safe is None:
        _check_divisible(np.atleast_2d(transform), V, name)
        return transform
    if not safe > 0:
        raise ValueError(f"safe is {safe:g}: it replaces zeros, and must be above 0 (the listing: {SAFE:g})")
    return np.where(np.abs(transform) <= safe, safe, transform)


def _check_divisible(transform: np.ndarray, V: int, name: str) -> None:
    """Refuse zeros of a transform, counted over all V columns, whose others are conjugates of these."""
    size = np.abs(transform)
    limit = max(SAFE, rounding(V, size.max()))
    if size.min() > limit:
        return
    times = np.where((np.arange(size.shape[1]) * 2) % V == 0, 1, 2)  # 0 and V / 2 are their own conjugates
    exact, small = (int((chosen * times).sum()) for chosen in (size == 0, size <= limit))
    raise ValueError(
        f"{name} is exactly 0 at {exact} of {len(size) * V} frequencies, and below rounding or the listing's "
        f"{SAFE:g} at {small - exact}: nothing can be divided there. safe=theory.SAFE puts that number in "
        "their place, as the listing does"
    )


def deconvolved_row(M: np.ndarray, D: Given, *, row: int = 0, safe: float | None = None) -> np.ndarray:
    """One row of ifft2(fft2(M) / fft2(D)) of a real M; `safe` as for :func:`k0_fft`."""
    transform = transform_of(D)
    V = len(transform)
    quotient = scipy.fft.rfft2(M)
    quotient /= divisors(transform, V, safe)
    return scipy.fft.irfft(phases(V, row) @ quotient / V, n=V)


def phases(V: int, row: int) -> np.ndarray:
    """exp(2 pi i a row / V) over frequencies a: read row `row` of an inverse transform."""
    return np.exp(2j * np.pi * ((np.arange(V) * row) % V) / V)


def row_identity(D: Given, *, safe: float | None = None) -> np.ndarray:
    """First row of the identity's deconvolution by D, shape (V,), in V^2 steps.

    fft2(I) is V where a + b = 0 mod V, and 0 elsewhere: of D only sums along cyclic diagonals enter, and of
    the zeros of fft2(D) those on that line alone.
    """
    matrix = matrix_of(D)
    along = scipy.fft.rfft(cyclic_diagonals(matrix)).real  # its imaginary part is rounding: s(m) = s(-m)
    along = divisors(along, len(matrix), safe, "fft2(D) on the line a + b = 0")
    return scipy.fft.irfft(1 / along, n=len(matrix))


def responses(D: Given, form: Form, *, safe: float | None = None) -> np.ndarray:
    """What each eigenvector q of D contributes, (V, V): column k is the first row of qq', deconvolved or not.

    k0 is ``responses @ weights``, with weights l^(eps - 1) in the eigen form and l^eps in the FFT form, and
    a slider needs V^2 steps. The columns add up to the identity's row. `safe` as for :func:`k0_fft`.
    """
    spectrum = spectrum_of(D)
    V = spectrum.vocab_size
    if form == "eigen":
        return spectrum.vectors * spectrum.vectors[0]
    if form != "fft":
        raise ValueError(f'form is {form!r}: use "eigen" or "fft"')
    waves = scipy.fft.fft(spectrum.vectors, axis=0)  # (V, V): frequency, eigenvector
    # fft2(qq')[a, b] = waves[a] waves[b]; the row sums over a, for b = 0..V//2
    summed = (1 / divisors(spectrum.transform, V, safe)).T @ waves
    return scipy.fft.irfft(waves[: V // 2 + 1] * summed / V, n=V, axis=0)


def alpha_scan(
    D: Given,
    alphas: ArrayLike,
    *,
    negative: Negative = "clamp",
    form: Form = "fft",
    safe: float | None = None,
) -> np.ndarray:
    """k0 for many powers (n,) in 0..1 at once, shape (n, V); one transform of D serves all.

    The kernel paper, section 4.1, Table 2. The other arguments as for :func:`k0_fft`.
    """
    spectrum = spectrum_of(D)
    powers = checked_eps(alphas) - (1 if form == "eigen" else 0)
    weights = spectral_power(spectrum.values, powers, negative=negative)
    return weights @ responses(spectrum, form, safe=safe).T


def clamped_share(D: Given, eps: float = EPS) -> float:
    """Share of |k0|^2, in the eigen form, from eigenvalues below the floor that were put onto it."""
    spectrum = spectrum_of(D)
    energy = (spectral_power(spectrum.values, one_eps(eps) - 1) * spectrum.vectors[0]) ** 2
    return float((energy * (spectrum.values < FLOOR)).sum(-1) / energy.sum(-1))


@dataclass(frozen=True, eq=False)
class TaylorTerms:
    """I + eps log D, term by term, after deconvolution: each of shape (V,)."""

    identity: np.ndarray
    log: np.ndarray  # without eps; complex for the complex logarithm
    eps: float

    @property
    def both(self) -> np.ndarray:
        """identity + eps log; of the complex logarithm the real part."""
        return self.identity + self.eps * self.log.real


def taylor_terms(
    D: Given, eps: float = EPS, *, kind: Logarithm = "clamp", safe: float | None = None
) -> TaylorTerms:
    """The terms of the expansion D^eps = I + eps log D + ..., each made into a row of a kernel (FFT form).

    The kernel paper, sections 4.2 and 4.3, Table 3. `kind` as for :func:`log_values`.
    """
    eps, spectrum = one_eps(eps), spectrum_of(D)
    columns = responses(spectrum, "fft", safe=safe)
    return TaylorTerms(columns.sum(axis=1), columns @ log_values(spectrum.values, kind), eps)


def impulse_row(D: Given, *, safe: float | None = None) -> np.ndarray:
    """First row of ifft2(1 / fft2(D)), shape (V,): the deconvolution of a single 1 at (0, 0).

    The text's identity term: 1 is the transform of an impulse, not of the identity matrix.
    """
    transform = transform_of(D)
    V = len(transform)
    return scipy.fft.irfft(phases(V, 0) @ (1 / divisors(transform, V, safe)) / V, n=V)
