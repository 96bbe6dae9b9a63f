"""Pictures: the theme, charts, explorers, the player, maps and tables."""

import lazy_loader

from embviz.imports import require

require("view", "altair", "vl_convert", "anywidget", "ipywidgets", purpose="embviz.view")

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "charts",
        "embedding_maps",
        "explorers",
        "player",
        "theme",
    ],
    submod_attrs={
        "bars": ["plot_bars"],
        "charts": ["bin_counts", "mirrored_bins"],
        "curves": ["plot_curves"],
        "distances": ["plot_distances"],
        "heat_maps": ["plot_heat_map"],
        "histograms": ["plot_histogram", "plot_ridges"],
        "multiples": ["panels"],
        "paths": ["plot_path"],
        "scatters": ["plot_scatter"],
        "strips": ["plot_strip"],
        "embedding_maps": [
            "EmbeddingMap",
            "SideBySide",
            "embedding_map",
            "pick_a_word",
            "side_by_side",
            "stress",
        ],
        "vocabulary_maps": ["VocabularyMap", "map_of", "map_of_neighbors"],
        "explorers": [
            "Choice",
            "Control",
            "Explorer",
            "Range",
            "Toggle",
            "compact_row",
        ],
        "comparison_pages": ["comparison_page"],
        "inspection_pages": ["inspection_page", "plot_states"],
        "pages": ["Page", "save_page"],
        "reports": ["plot_run", "plot_spectrum", "plot_trace"],
        "player": ["LiveRun", "Number", "Numbers", "Player"],
        "theme": ["captioned"],
        "typesetting": ["TypesetTable", "typeset", "typeset_frames"],
    },
)
