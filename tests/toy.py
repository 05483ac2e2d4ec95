"""Small histories, written out by hand, for the tests."""

from __future__ import annotations

import copy
import json
from pathlib import Path

QUESTION = {
    "question_id": "q1",
    "question_type": "multi-session",
    "question": "How many mugs did I buy?",
    "answer": 3,
    "question_date": "2024/03/10 (Sun) 09:00",
    "answer_session_ids": ["answer_aa_1", "answer_aa_2"],
    "haystack_dates": [
        "2024/03/01 (Fri) 10:00",
        "2024/03/02 (Sat) 11:00",
        "2024/03/03 (Sun) 12:00",
    ],
    "haystack_session_ids": ["answer_aa_1", "f1", "answer_aa_2"],
    "haystack_sessions": [
        [
            {"role": "user", "content": "I bought two mugs", "has_answer": True},
            {"role": "assistant", "content": "Nice mugs", "has_answer": False},
            {"role": "user", "content": "How do I wash them", "has_answer": False},
            {"role": "assistant", "content": "By hand", "has_answer": False},
        ],
        [
            {"role": "assistant", "content": "Welcome"},
            {"role": "user", "content": "Tell me about trains"},
            {"role": "assistant", "content": "They run on rails"},
            {"role": "user", "content": "And trams"},
        ],
        [
            {"role": "user", "content": "Paint for a mug", "has_answer": False},
            {"role": "assistant", "content": "Enamel paint", "has_answer": False},
            {"role": "user", "content": "I got one more mug", "has_answer": True},
            {"role": "assistant", "content": "Good", "has_answer": False},
        ],
    ],
}


def question(**changes) -> dict:
    """The toy question with some fields changed."""
    return copy.deepcopy(QUESTION) | changes


def write(path: Path, *questions: dict) -> Path:
    """Write questions as an official file."""
    path.write_text(json.dumps(questions or [question()]), encoding="utf-8")
    return path
