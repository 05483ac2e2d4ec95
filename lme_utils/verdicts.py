"""What counts as reproduced: a rule per profile, fixed before anything is measured.

On the profile `paper`, whose models and data are the paper's, a value counts when it
lies within a stated band. On every other profile only the direction of a claim can be
compared, and the verdict says how sure it is.

A claim is a dict: source, paper (the paper's value), band, sign (+1, -1, or 0 for a
plain value) and, once measured, ours: value, low, high, n, p (None: no test).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def direction_verdict(
    difference: float | None,
    p_value: float | None,
    expected_sign: int,
    alpha: float = 0.05,
) -> str:
    """Whether a difference points where the paper's does.

    "same and significant", "same, within the noise", "opposite", or "can't be told":
    no difference at all, none measured, no test, or no direction claimed (sign 0).
    An opposite difference is called so whatever its p, as the same direction is.

    >>> direction_verdict(0.10, 0.01, +1), direction_verdict(0.10, 0.30, +1)
    ('same and significant', 'same, within the noise')
    >>> direction_verdict(-0.02, 0.70, +1), direction_verdict(0.0, 1.0, +1)
    ('opposite', "can't be told")
    """
    unknown = any(x is None or math.isnan(x) for x in (difference, p_value))
    if unknown or difference == 0 or expected_sign == 0:
        return "can't be told"
    if difference * expected_sign < 0:
        return "opposite"
    return "same and significant" if p_value <= alpha else "same, within the noise"


def verdict(claim: Mapping[str, Any], profile: str) -> str:
    """The verdict on one claim: "not run" while nothing is measured.

    On the profile `paper` "inside the band" or "outside the band" (limits included);
    on others the direction, see `direction_verdict`.

    >>> claim = {"paper": 0.10, "band": 0.03, "sign": +1}
    >>> verdict(claim | {"ours": {"value": 0.08, "p": 0.2}}, "paper")
    'inside the band'
    """
    ours = claim.get("ours")
    if not ours:
        return "not run"
    if profile != "paper":
        return direction_verdict(ours["value"], ours["p"], claim["sign"])
    rounding = 1e-12
    inside = abs(ours["value"] - claim["paper"]) <= claim["band"] + rounding
    return "inside the band" if inside else "outside the band"


def verdict_table(
    claims: Mapping[str, Mapping[str, Any]], profile: str
) -> pd.DataFrame:
    """A row per claim, as text: claim, source, paper, ours, interval, n, p, verdict.

    Differences carry their sign; the band is shown on the profile `paper`.
    """
    import pandas as pd

    rows = []
    for name, claim in claims.items():
        digits = "+.3f" if claim["sign"] else ".3f"
        row = {"claim": name, "source": claim["source"]}
        row["paper"] = format(claim["paper"], digits)
        if profile == "paper":
            row["band"] = f"± {claim['band']:g}"
        row |= dict.fromkeys(("ours", "95% interval", "n", "p"), "–")
        if ours := claim.get("ours"):
            low, high = (format(ours[end], digits) for end in ("low", "high"))
            row |= {
                "ours": format(ours["value"], digits),
                "95% interval": f"{low} to {high}",
                "n": f"{ours['n']:,}",
            }
            if ours["p"] is not None:
                row["p"] = f"{ours['p']:.3f}" if ours["p"] >= 0.001 else "< 0.001"
        rows.append(row | {"verdict": verdict(claim, profile)})
    return pd.DataFrame(rows)
