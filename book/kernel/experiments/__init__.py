"""The kernel paper: what the Gram matrix of tied embeddings converges to."""

from book.kernel.experiments import (
    chosen,
    extracted,
    fits,
    hyperparameters,
    orthogonality,
    scale,
    scan,
    starts,
)

STUDIES = {
    **extracted.STUDIES,
    **fits.STUDIES,
    **scan.STUDIES,
    **chosen.STUDIES,
    **orthogonality.STUDIES,
    **starts.STUDIES,
    **scale.STUDIES,
    **hyperparameters.STUDIES,
}
