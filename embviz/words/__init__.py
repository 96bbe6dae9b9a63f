"""Co-occurrence, PMI, spectra, skip-gram and word vectors."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "cooccurrence",
        "groups",
        "reports",
        "skipgram",
        "spectra",
        "wordtests",
        "wordvectors",
    ],
    submod_attrs={
        "cooccurrence": ["count_pairs", "pmi", "ppmi", "shifted_pmi"],
        "groups": ["probe_groups"],
        "reports": ["reflection_test", "spectrum_report"],
        "skipgram": ["SGNSConfig", "SGNSSchedule", "train_sgns"],
        "spectra": ["eigenvalues", "shuffle_tokens"],
        "wordtests": ["analogy_test", "similarity_test"],
        "wordvectors": ["WordVectors", "factorize_pmi"],
    },
)
