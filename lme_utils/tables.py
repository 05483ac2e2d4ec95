"""Tables of a notebook: full numbers for machines, rounded ones for readers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from IPython.display import HTML

    from .provenance import Run


def save_table(
    df: pd.DataFrame,
    name: str,
    run: Run,
    caption: str,
    formats: Mapping[str, str] | None = None,
) -> HTML:
    """Write `name.csv`, `.md`, `.tex`, `.json` into the run's figures; show the table.

    caption  one sentence; the profile is added
    formats  format specification by column, such as {"share": ".2f"}; without one,
             whole numbers get thousands separators and others as many decimals as
             their interval allows: two digits of its half-width where the table has
             columns low and high, else three

    The CSV has every digit; Markdown, LaTeX (booktabs) and the display are rounded. The
    index is not written. The display holds no random id: a second run looks the same.
    """
    from IPython.display import HTML
    from pandas.io.formats.style import Styler

    text = _as_text(df, formats or {})
    caption = f"{caption.rstrip('.')} ({run.about})."
    numeric = [pd.api.types.is_numeric_dtype(df[column]) for column in df]
    align = ["right" if number else "left" for number in numeric]

    run.write(f"{name}.csv", df.to_csv(index=False, lineterminator="\n"))
    body = text.map(lambda cell: cell.replace("|", "\\|")).to_markdown(
        index=False, colalign=align, disable_numparse=True
    )
    run.write(f"{name}.md", f"{caption}\n\n{body}\n")
    latex = text.to_latex(
        index=False,
        escape=True,
        caption=_escape_latex(caption),
        label=f"tab:{run.notebook}-{name}",
        column_format="".join(side[0] for side in align),
        position="t",
    )
    run.write(f"{name}.tex", latex)
    run.write_stamp(name, caption=caption)

    styles = [{"selector": "caption", "props": "text-align: left; padding: 0.3em 0"}]
    styles += [
        {"selector": f".col{i}", "props": f"text-align: {side}"}
        for i, side in enumerate(align)
    ]
    shown = Styler(text, uuid=name, cell_ids=False).hide(axis="index")
    shown = shown.format(escape="html").set_caption(caption).set_table_styles(styles)
    return HTML(shown.to_html())


def _as_text(df: pd.DataFrame, formats: Mapping[str, str]) -> pd.DataFrame:
    """Every cell as it is read; what is missing is a dash."""
    if unknown := set(formats) - set(df.columns):
        raise ValueError(f"formats: no column {unknown.pop()!r} in {list(df.columns)}")
    decimals = _decimals(df)

    def show(value: object, column: str) -> str:
        if pd.isna(value):
            return "–"
        if column in formats:
            return format(value, formats[column])
        if pd.api.types.is_bool(value):
            return "yes" if value else "no"
        if pd.api.types.is_integer(value):
            return f"{value:,}"
        return f"{value:.{decimals}f}" if pd.api.types.is_float(value) else str(value)

    return pd.DataFrame({c: [show(v, c) for v in df[c]] for c in df}, dtype=str)


def _decimals(df: pd.DataFrame) -> int:
    """Decimals that show two digits of the usual half-width of the intervals."""
    if not {"low", "high"} <= set(df.columns):
        return 3
    half = ((df["high"] - df["low"]) / 2).median()
    if not half > 0:
        return 3
    return max(0, 1 - math.floor(math.log10(half)))


def _escape_latex(text: str) -> str:
    """The caption: pandas escapes cells only."""
    for sign in "&%$#_{}":
        text = text.replace(sign, f"\\{sign}")
    return text
