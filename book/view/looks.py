"""The looks of verdicts: a colour and a mark each, since no dichromat tells seven colours apart."""

from __future__ import annotations

LOOKS = {
    "reproduced": ("#009E73", "✓"),
    "not specific": ("#0072B2", "="),
    "not reproduced": ("#D55E00", "✗"),
    "yes": ("#00A0B0", "Y"),
    "no": ("#C2185B", "N"),
    "inconclusive": ("#CC79A7", "?"),
    "not tested": ("#888888", "–"),
}
COLOURS = {verdict: colour for verdict, (colour, _) in LOOKS.items()}
MARKS = {**{verdict: mark for verdict, (_, mark) in LOOKS.items()}, "reported": "·"}
