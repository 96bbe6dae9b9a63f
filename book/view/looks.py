"""The looks of verdicts: a colour, a shape and a mark each, since no dichromat tells seven colours apart."""

from __future__ import annotations

STAR = "M0,-1L0.29,-0.4L0.95,-0.31L0.48,0.15L0.59,0.81L0,0.5L-0.59,0.81L-0.48,0.15L-0.95,-0.31L-0.29,-0.4Z"
LOOKS = {
    "reproduced": ("#009E73", "circle", "✓"),
    "not specific": ("#0072B2", STAR, "="),
    "not reproduced": ("#D55E00", "square", "✗"),
    "yes": ("#00A0B0", "triangle-right", "Y"),
    "no": ("#C2185B", "triangle-left", "N"),
    "inconclusive": ("#CC79A7", "diamond", "?"),
    "not tested": ("#888888", "cross", "–"),
}
COLOURS = {verdict: colour for verdict, (colour, _, _) in LOOKS.items()}
SHAPES = {verdict: shape for verdict, (_, shape, _) in LOOKS.items()}
MARKS = {**{verdict: mark for verdict, (_, _, mark) in LOOKS.items()}, "reported": "·"}
