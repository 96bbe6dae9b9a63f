"""The kernel paper: what the Gram matrix of tied embeddings converges to."""

from embviz.studies import Study

CLAIMS = (
    *("exact", "circulant", "data_determined", "table1", "table2", "identity", "table3", "eigen_table"),
    *("table4", "table5", "listings", "pmi_fit", "orthogonal", "diagnostic", "initialization"),
    *("open_scale", "open_eps"),
)
STUDIES = {f"kernel.{name}": Study(lambda preset: [], lambda preset: {}) for name in CLAIMS}
