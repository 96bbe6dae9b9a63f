"""The kernel paper: what the Gram matrix of tied embeddings converges to."""

from book.kernel.experiments import (
    chosen,
    convergence,
    extracted,
    fits,
    frozen,
    hyperparameters,
    scale,
    scan,
    starts,
)

STUDIES = {
    **extracted.STUDIES,
    **fits.STUDIES,
    **scan.STUDIES,
    **chosen.STUDIES,
    **frozen.STUDIES,
    **starts.STUDIES,
    **scale.STUDIES,
    **hyperparameters.STUDIES,
    **convergence.STUDIES,  # what it adds to claims of modules above
}
