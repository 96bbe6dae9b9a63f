"""Pictures: the theme, charts, explorers, the player, maps and tables."""

import lazy_loader

from embviz.imports import require

require("view", "altair", "vl_convert", "anywidget", "ipywidgets", purpose="embviz.view")

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "charts",
        "explorers",
        "maps",
        "player",
        "theme",
    ],
    submod_attrs={
        "charts": ["Axis", "bin_counts", "mirrored_bins"],
        "curves": ["plot_curves"],
        "distances": ["plot_distances"],
        "forms": ["panels", "plot_bars", "plot_heat_map", "plot_scatter", "plot_strip"],
        "histograms": ["plot_histogram", "plot_ridges"],
        "paths": ["plot_path"],
        "maps": ["Map", "embedding_map", "map_of", "map_of_neighbors", "pick_a_word", "side_by_side"],
        "explorers": ["Choice", "Explorer", "Range", "Toggle"],
        "pages": ["save_page"],
        "reports": [
            "comparison_page",
            "inspection_page",
            "plot_run",
            "plot_spectrum",
            "plot_states",
            "plot_trace",
        ],
        "player": ["Number", "Player"],
        "theme": ["captioned"],
        "typesetting": ["typeset", "typeset_frames"],
    },
)
