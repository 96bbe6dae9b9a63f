"""Figures of the resizing claims that amendments added: read once their own cells are stored."""

from embviz.ledger.claims import Claim

LATER = {
    "resizing.jl_bound": ["failures_many", "width_many"],
    "resizing.geometry_curves": ["slope_embeddings_bases", "slope_hidden_bases"],
    "resizing.out_of_support": ["ratio_seen", "larger", "steering", "representative_fresh"],
    "resizing.language": ["within_width_random"],
    "resizing.porting": ["printed", "printed_rotation", "repaired_rotation"],
    "resizing.perplexity": [
        *("after_400_half", "after_400_0.75", "after_400_double", "after_1200_half", "after_1600_half"),
        *("lost_half_bases", "scratch_half_bases", "adamw_half", "adafactor_half"),
    ],
    "resizing.architecture": ["peri_bases", "normalized_bases"],
    "resizing.staged": ["staged_bases"],
    "resizing.grow": ["saved_fresh", "saved_flops_fresh", "ahead_fresh"],
    "resizing.quantization": [
        *("kurtosis_weights_bases", "kurtosis_hidden_bases", "int4_tensor_bases", "int4_channel_bases")
    ],
    "resizing.gains": [
        *("dropped_projected_bases", "dropped_projected_half_bases", "dropped_dense_half_bases"),
        *("dropped_dense_tuned", "dropped_projected_tuned"),
    ],
    "resizing.heads": ["plain_kept_tuned_half", "plain_kept_tuned_0.75"],
    "resizing.rope": ["gain_half_bases", "gain_0.75_bases"],
}


def first_measurements(claim: Claim) -> set[str]:
    """The names of its other measurements that are taken."""
    names = claim.finding_names
    later = set(LATER.get(claim.id, ()))
    assert later <= names, later - names
    return names - later
