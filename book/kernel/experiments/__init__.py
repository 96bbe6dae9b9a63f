"""The kernel paper: what the Gram matrix of tied embeddings converges to."""

from book.kernel.experiments import extracted, fits, hyperparameters, orthogonality, scale, starts

STUDIES = {
    **extracted.STUDIES,
    **fits.STUDIES,
    **orthogonality.STUDIES,
    **starts.STUDIES,
    **scale.STUDIES,
    **hyperparameters.STUDIES,
}
