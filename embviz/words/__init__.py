"""Co-occurrence, PMI, spectra, skip-gram and word vectors."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "cooccurrence",
        "formats",
        "groups",
        "reports",
        "skipgram",
        "spectra",
        "wordtests",
        "wordvectors",
    ],
    submod_attrs={
        "cooccurrence": [
            "count_pairs",
            "keep_probability",
            "pmi",
            "ppmi",
            "shifted_pmi",
        ],
        "reports": ["SpectrumReport", "map_summary", "reflection_test", "spectrum_report"],
        "skipgram": ["Examples", "SGNSConfig", "SGNSSchedule", "make_signature", "sgns_epochs", "train_sgns"],
        "spectra": [
            "eigenvalues",
            "semicircle",
            "shuffle_tokens",
            "truncated_eigen",
        ],
        "wordtests": ["analogy_correct", "analogy_test", "similarity_cosines", "similarity_test"],
        "formats": ["context_path", "read_vectors"],
        "groups": ["GroupProbe", "probe_groups"],
        "wordvectors": ["WordVectors", "chosen_rows", "factorize_pmi"],
    },
)
