"""k0, the first row of a kernel, from D alone: both listings, scans over powers, the terms of log D.

Both forms are linear in functions of D's eigenvalues, so that :func:`responses`, one column an eigenpair,
turns a change of eps, of the clamp or of what stands for negative eigenvalues into one product.

Where fft2(D) has zeros no quotient is defined. The listing divides by 1e-10 there, which makes rounding in
the numerator 1e10 times as large. Such a D is refused, with the number of its zeros, unless `safe` is given.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike

from embviz.arrays import checked
from embviz.kernels.extraction import cyclic_diagonals
from embviz.kernels.spectrum import (
    BLOCK,
    FLOOR,
    Given,
    Logarithm,
    Negative,
    checked_eps,
    decompose,
    log_values,
    matrix_of,
    matrix_power,
    n_bytes_for,
    one_eps,
    rounding,
    spectral_power,
    spectrum_of,
    transform_of,
)

Form = Literal["eigen", "fft"]
Unit = Literal["matrix", "impulse"]

EPS = 0.003  # the paper's
SAFE = 1e-10  # the FFT listing's least |fft2(D)|
CALIBRATION_SIZE = 400  # words of the spectrum that is timed: a fraction of a second


def k0_eigen(
    D: Given, eps: float = EPS, *, negative: Negative = "clamp", floor: float = FLOOR, row: int = 0
) -> np.ndarray:
    """A row of the matrix power D^(eps - 1): the first listing.

    Parameters
    ----------
    D : array (V, V), symmetric, or Spectrum
    eps : float, above 0 and up to 1
    negative, floor
        As for :func:`spectral_power`.
    row : int
        Which word's row is "the first"; -1 is the last.

    Returns
    -------
    array, shape (V,)

    Raises
    ------
    ValueError
        If D is not square, finite and symmetric, a row of it is all 0, eps is not one number above 0 and up
        to 1, or there is no such row.

    Source
    ------
    The kernel paper, section 1 and Appendix B, first function.
    """
    power, spectrum = one_eps(eps) - 1, spectrum_of(D)
    row = checked_row(row, spectrum.vocab_size)
    weights = spectral_power(spectrum.values, power, negative=negative, floor=floor)
    return spectrum.vectors @ (weights * spectrum.vectors[row])


def checked_row(row: int, V: int) -> int:
    """Which of V rows, from 0 on, or a refusal."""
    if not isinstance(row, (int, np.integer)) or not -V <= row < V:
        raise ValueError(f"row is {row!r}: D has rows 0 to {V - 1}, and -1 is the last")
    return int(row) % V


def k0_fft(
    D: Given,
    eps: float = EPS,
    *,
    negative: Negative = "clamp",
    floor: float = FLOOR,
    row: int = 0,
    safe: float | None = None,
) -> np.ndarray:
    """A row of ifft2(fft2(D^eps) / fft2(D)): the second listing.

    Parameters
    ----------
    D, eps, negative, floor, row
        As for :func:`k0_eigen`.
    safe : float, optional
        Stands for fft2(D) wherever that is no larger in magnitude; ``kernels.SAFE`` is the listing's. Without
        it the result is the listing's too, or a refusal where the listing would have replaced something.

    Returns
    -------
    array, shape (V,)

    Raises
    ------
    ValueError
        As :func:`k0_eigen`; or if fft2(D) is 0 somewhere, below rounding, or no larger than 1e-10, and
        nothing was said to stand for it.

    Source
    ------
    The kernel paper, section 9 and Appendix B, second function.
    """
    one_eps(eps)  # before a spectrum is computed
    spectrum = spectrum_of(D)
    row = checked_row(row, spectrum.vocab_size)
    power = matrix_power(spectrum, eps, negative=negative, floor=floor)
    return deconvolved_row(power, spectrum, row=row, safe=safe)


def divisors(transform: np.ndarray, V: int, safe: float | None, name: str = "fft2(D)") -> np.ndarray:
    """A complex transform (..., V // 2 + 1) to divide by: `safe` for its zeros, or refused if any."""
    transform = checked(transform, "transform", kind="complex")
    if safe is None:
        _check_divisible(np.atleast_2d(transform), V, name)
        return transform
    if not safe > 0:
        raise ValueError(
            f"safe is {safe:g}: it stands for zeros, and must be above 0 (the listing: {SAFE:g})"
        )
    small = np.abs(transform) <= safe
    return np.where(small, safe, transform) if small.any() else transform


def _check_divisible(transform: np.ndarray, V: int, name: str) -> None:
    """Refuse zeros of a transform, counted over all V columns, whose others are conjugates of these."""
    blocks = (np.abs(transform[first : first + BLOCK]) for first in range(0, len(transform), BLOCK))
    ends = np.array([(size.min(), size.max()) for size in blocks])
    limit = max(SAFE, rounding(V, ends[:, 1].max()))
    if ends[:, 0].min() > limit:
        return
    size = np.abs(transform)
    times = np.where((np.arange(size.shape[1]) * 2) % V == 0, 1, 2)  # 0 and V / 2 are their own conjugates
    exact, small = (int((chosen * times).sum()) for chosen in (size == 0, size <= limit))
    raise ValueError(
        f"{name} is exactly 0 at {exact} of {len(size) * V} frequencies, and below rounding or the listing's "
        f"{SAFE:g} at {small - exact}: nothing can be divided there. safe=kernels.SAFE puts that number in "
        "their place, as the listing does"
    )


def deconvolve(M: np.ndarray, D: Given, *, safe: float | None = None) -> np.ndarray:
    """ifft2(fft2(M) / fft2(D)), shape (V, V), complex for complex M; `safe` as for :func:`k0_fft`."""
    transform = transform_of(D)
    M = _fitting(M, len(transform))
    below = divisors(transform, len(M), safe)
    real = scipy.fft.irfft2(scipy.fft.rfft2(M.real) / below, s=M.shape)
    if not np.iscomplexobj(M):
        return real
    return real + 1j * scipy.fft.irfft2(scipy.fft.rfft2(M.imag) / below, s=M.shape)


def _fitting(M: np.ndarray, V: int) -> np.ndarray:
    M = checked(M, "M", 2, kind="complex")
    if M.shape != (V, V):
        raise ValueError(f"M has shape {M.shape}, and D is {V} x {V}: give one of that shape")
    return M


def deconvolved_row(M: np.ndarray, D: Given, *, row: int = 0, safe: float | None = None) -> np.ndarray:
    """One row of :func:`deconvolve` of a real M, at half its time and memory."""
    transform = transform_of(D)
    V = len(transform)
    M, row = _fitting(M, V), checked_row(row, V)
    below = divisors(transform, V, safe)
    if np.iscomplexobj(M):
        raise ValueError("M holds complex numbers: deconvolve takes them")
    quotient = scipy.fft.rfft2(M)
    quotient /= below
    return scipy.fft.irfft(phases(V, row) @ quotient / V, n=V)


def phases(V: int, row: int) -> np.ndarray:
    """exp(2 pi i a row / V) over frequencies a: read row `row` of an inverse transform."""
    return np.exp(2j * np.pi * ((np.arange(V) * row) % V) / V)


def row_identity(D: Given, *, row: int = 0, safe: float | None = None) -> np.ndarray:
    """The same row of the identity's deconvolution by D, shape (V,), in V^2 steps.

    fft2(I) is V where a + b = 0 mod V, and 0 elsewhere: of D only sums along cyclic diagonals enter, and of
    the zeros of fft2(D) those on that line alone.
    """
    matrix = matrix_of(D)
    V = len(matrix)
    row = checked_row(row, V)
    along = scipy.fft.rfft(cyclic_diagonals(matrix)).real  # its imaginary part is rounding: s(m) = s(-m)
    along = divisors(along, V, safe, "fft2(D) on the line a + b = 0")
    return np.roll(scipy.fft.irfft(1 / along, n=V), row)


def responses(D: Given, form: Form, *, row: int = 0, safe: float | None = None) -> np.ndarray:
    """What each eigenvector q of D alone would give: column k is that row of qq', or of its deconvolution.

    k0 is ``responses @ weights``, with weights l^(eps - 1) in the eigen form and l^eps in the FFT form, and
    a slider needs V^2 steps. The columns add up to the identity's row.

    Parameters
    ----------
    D : array or Spectrum
    form : "eigen" or "fft"
    row, safe
        As for :func:`k0_fft`.

    Returns
    -------
    array, shape (V, V)
    """
    spectrum = spectrum_of(D)
    V = spectrum.vocab_size
    row = checked_row(row, V)
    if form == "eigen":
        return spectrum.vectors * spectrum.vectors[row]
    if form != "fft":
        raise ValueError(f'form is {form!r}: use "eigen" or "fft"')
    waves = scipy.fft.fft(spectrum.vectors, axis=0)  # (V, V): frequency, eigenvector
    # fft2(qq')[a, b] = waves[a] waves[b]; the row sums over a, for b = 0..V//2
    summed = (1 / divisors(spectrum.transform, V, safe)).T @ (phases(V, row)[:, None] * waves)
    return scipy.fft.irfft(waves[: V // 2 + 1] * summed / V, n=V, axis=0)


def alpha_scan(
    D: Given,
    alphas: ArrayLike,
    *,
    negative: Negative = "clamp",
    form: Form = "fft",
    floor: float = FLOOR,
    row: int = 0,
    safe: float | None = None,
) -> np.ndarray:
    """k0 for many powers at once, shape (n_alphas, V); one transform of D serves all.

    Parameters
    ----------
    alphas : array, shape (n_alphas,), each above 0 and up to 1
    D, negative, form, floor, row, safe
        As for :func:`k0_fft` and :func:`responses`.

    Source
    ------
    The kernel paper, section 4.1, Table 2.
    """
    spectrum = spectrum_of(D)
    powers = checked_eps(checked(alphas, "alphas", 1)) - (1 if form == "eigen" else 0)
    weights = spectral_power(spectrum.values, powers, negative=negative, floor=floor)
    return weights @ responses(spectrum, form, row=row, safe=safe).T


@dataclass(frozen=True, eq=False)
class ClampedShare:
    """What the clamped eigenvalues contribute to both forms of k0; each of the shape of eps and floor."""

    eigen: np.ndarray  # share of |k0|^2, in 0..1
    fft: np.ndarray  # 1 - |d - d'|^2 / |d|^2 of d = k0 - identity's row, d' the clamped ones' part of d
    departure: np.ndarray  # |d| / |identity's row|


def clamped_share(
    D: Given, eps: ArrayLike = EPS, *, floor: ArrayLike = FLOOR, row: int = 0, safe: float | None = None
) -> ClampedShare:
    """How much of k0 comes from eigenvalues that were below the floor and put onto it.

    Parameters
    ----------
    D : array or Spectrum
    eps, floor : numbers, or arrays that broadcast
    row, safe
        As for :func:`k0_fft`.
    """
    spectrum = spectrum_of(D)
    row = checked_row(row, spectrum.vocab_size)
    eps, floor = checked_eps(eps), checked(floor, "floor")
    try:
        eps, floor = np.broadcast_arrays(eps, floor)
    except ValueError as error:
        raise ValueError(f"eps has shape {eps.shape} and floor {floor.shape}: they don't fit") from error
    clamped = spectrum.values < floor[..., None]  # (..., V)
    energy = (spectral_power(spectrum.values, eps - 1, floor=floor) * spectrum.vectors[row]) ** 2
    columns = responses(spectrum, "fft", row=row, safe=safe)
    weights = spectral_power(spectrum.values, eps, floor=floor) - 1
    whole = weights @ columns.T
    rest = np.where(clamped, 0.0, weights) @ columns.T
    identity = np.linalg.norm(columns.sum(axis=1))
    squared = (whole**2).sum(-1)
    return ClampedShare(
        eigen=(energy * clamped).sum(-1) / energy.sum(-1),
        fft=1 - (rest**2).sum(-1) / squared,
        departure=np.sqrt(squared) / identity,
    )


@dataclass(frozen=True, eq=False)
class TaylorTerms:
    """I + eps log D, term by term, after deconvolution: each of shape (V,)."""

    identity: np.ndarray
    log: np.ndarray  # without eps; complex for the complex logarithm
    power: np.ndarray  # of D^eps itself, clamped as the listings do
    eps: float

    @property
    def both(self) -> np.ndarray:
        """identity + eps log; of the complex logarithm the real part."""
        return self.identity + self.eps * self.log.real


def taylor_terms(
    D: Given,
    eps: float = EPS,
    *,
    kind: Logarithm = "clamp",
    form: Form = "fft",
    unit: Unit = "matrix",
    floor: float = FLOOR,
    row: int = 0,
    safe: float | None = None,
) -> TaylorTerms:
    """The terms of the expansion D^eps = I + eps log D + ..., each made into a row of a kernel.

    Parameters
    ----------
    D, eps, form, floor, row, safe
        As for :func:`alpha_scan`. In the eigen form rows of D^-1, D^-1 log D and D^(eps - 1).
    kind : "clamp", "magnitude" or "complex"
        As for :func:`log_matrix`. D^-1 of the eigen form is clamped, or not, like the logarithm.
    unit : "matrix" or "impulse"
        The text's identity term is ifft2(1 / fft2(D)), and 1 is the transform of an impulse at (0, 0), not
        of the identity matrix ("matrix", V on the frequencies a + b = 0). FFT form alone.

    Source
    ------
    The kernel paper, sections 4.2 and 4.3, Table 3.
    """
    eps, spectrum = one_eps(eps), spectrum_of(D)
    columns = responses(spectrum, form, row=row, safe=safe)
    logs = log_values(spectrum.values, kind, floor)
    power = alpha_scan(spectrum, [eps], form=form, floor=floor, row=row, safe=safe)[0]
    if form == "eigen":
        kept: Negative = "clamp" if kind == "clamp" else "signed"
        inverse = spectral_power(spectrum.values, -1, negative=kept, floor=floor)
        return TaylorTerms(columns @ inverse, columns @ (inverse * logs), power, eps)
    identity = columns.sum(axis=1) if unit == "matrix" else impulse_row(spectrum, row=row, safe=safe)
    return TaylorTerms(identity, columns @ logs, power, eps)


def impulse_row(D: Given, *, row: int = 0, safe: float | None = None) -> np.ndarray:
    """That row of ifft2(1 / fft2(D)), shape (V,): the deconvolution of a single 1 at (0, 0)."""
    transform = transform_of(D)
    V = len(transform)
    row = checked_row(row, V)
    return scipy.fft.irfft(phases(V, row) @ (1 / divisors(transform, V, safe)) / V, n=V)


# --- what it takes ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """What a spectrum and one deconvolution take. Estimates, not promises."""

    n_bytes: int  # D included
    seconds: float  # on this machine with its threads as they are now


def estimate(vocab_size: int) -> Estimate:
    """Memory and time of :func:`decompose` and one :func:`k0_fft`.

    The time grows as V^3 from one small spectrum, timed at the first call; larger ones use the machine
    better, so that it errs on the long side.
    """
    return Estimate(n_bytes_for(vocab_size), _calibration_seconds() * (vocab_size / CALIBRATION_SIZE) ** 3)


@functools.cache
def _calibration_seconds() -> float:
    half = np.random.default_rng(0).random((CALIBRATION_SIZE, CALIBRATION_SIZE))
    matrix, times = half + half.T, []
    for _ in range(2):  # the faster: libraries are loaded, other load is less
        began = time.perf_counter()
        k0_fft(decompose(matrix), EPS)
        times.append(time.perf_counter() - began)
    return min(times)
