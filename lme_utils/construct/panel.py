"""The review panel: read a question with its sessions, then accept, edit or reject."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .audit import DECISIONS, read_decisions, run_checks, write_decision
from .items import Question

if TYPE_CHECKING:
    import ipywidgets


def item_html(question: Question) -> str:
    """A question with answer, statements and sessions; evidence turns are marked.

    The mark is a bar and the word "evidence", not colour alone.
    """
    parts = [
        f"<p><b>{_text(question.question)}</b><br>"
        f"asked {question.question_date:%Y/%m/%d %H:%M} · {_text(question.kind)} · "
        f"answer: {_text(str(question.answer))}</p>"
    ]
    for number, entry in enumerate(question.evidence, 1):
        parts.append(
            f"<p><b>Session {number}</b>, {entry.date:%Y/%m/%d %H:%M}. "
            f"It should say: {_text(entry.statement)}</p>"
        )
        for place, text in enumerate(entry.session):
            role = ("user", "assistant")[place % 2]
            mark = ""
            if place in entry.turns:
                role += ", evidence"
                mark = "border-left: 4px solid #0072b2;"
            parts.append(
                f'<p style="margin: 0.2em 0 0.2em 1em; padding-left: 0.5em; {mark}">'
                f"<i>{role}</i>: {_text(text)}</p>"
            )
    findings = run_checks([question])
    found = "; ".join(f"{f.check}: {f.what}" for f in findings) or "nothing"
    parts.append(f"<p>The machine checks found: {_text(found)}</p>")
    return "".join(parts)


def review_panel(questions: Sequence[Question], path: Path) -> ipywidgets.Widget:
    """A panel that walks through questions and writes each decision to `path`.

    Questions come in the given order, undecided and changed ones first. An edit or a
    rejection needs a reason; what to change goes there, and the text itself is changed
    in the sources.
    """
    import ipywidgets as w

    decided = read_decisions(path)

    def is_decided(question: Question) -> bool:
        row = decided.get(question.question_id)
        return row is not None and row["digest"] == question.digest

    queue = sorted(questions, key=is_decided)
    choose = w.Dropdown(
        options=[(q.question_id, i) for i, q in enumerate(queue)], description="item"
    )
    shown = w.HTML()
    reason = w.Text(placeholder="reason, for edit and reject", description="reason")
    said = w.Label()
    buttons = [w.Button(description=word) for word in DECISIONS]

    def show(_change: object = None) -> None:
        shown.value = item_html(queue[choose.value])
        reason.value = ""

    def decide(button: w.Button) -> None:
        question = queue[choose.value]
        try:
            write_decision(path, question, button.description, reason.value)
        except ValueError as error:
            said.value = str(error)
            return
        said.value = f"{question.question_id}: {button.description}"
        choose.value = min(choose.value + 1, len(queue) - 1)

    for button in buttons:
        button.on_click(decide)
    choose.observe(show, names="value")
    show()
    return w.VBox([choose, shown, reason, w.HBox(buttons), said])


def _text(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")
