"""Where the gain of expanded keys comes from, in the authors' way of counting.

Their code does more than expand: an item whose list of facts is empty leaves the index
(a filler no longer competes, evidence no longer counts), and items of evidence sessions
that hold no evidence are never expanded, which a system that does not know the labels
could not do. Each step adds one of these, so that the differences add up. Paper: §5.3,
Table 3; the steps are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .config import Profile
from .extract import Kind, Notes, expansions
from .finding import resolve
from .index import OFFICIAL_QUIRKS, Expansions, bare_id, build_records, expand
from .metrics import score_ranking
from .retrieve import embed_all, rank
from .schema import Granularity, Instance, Record

if TYPE_CHECKING:
    import pandas as pd

STEPS = (
    "V",
    "notes before the text",
    "others without notes leave",
    "evidence without notes leaves",
    "renamed items are not expanded",
)


def stepwise_records(
    records: Sequence[Record], found: Expansions
) -> dict[str, tuple[Record, ...]]:
    """The index after each of the `STEPS`, from the authors' V to their V + notes.

    records  from `index.build_records` with compat "official"
    found    the notes by bare id, from `extract.expansions`
    """
    gold = {bare_id(record.id) for record in records if record.gold}
    kept = {
        name: (found[name] or "") if name in gold else found[name] for name in found
    }
    return {
        STEPS[0]: tuple(records),
        STEPS[1]: expand(records, found),
        STEPS[2]: expand(records, kept, quirks={"delete"}),
        STEPS[3]: expand(records, found, quirks={"delete"}),
        STEPS[4]: expand(records, found, quirks=OFFICIAL_QUIRKS),
    }


def decompose(
    instances: Sequence[Instance],
    notes: Notes,
    kind: Kind,
    granularity: Granularity,
    retriever: str,
    profile: Profile,
) -> pd.DataFrame:
    """Score every step for every question, as the authors' scorer does.

    notes    from `extract.extract`, of this kind and granularity
    retriever  as in `schema.Config`
    returns  a row per step and question: step, question_id, question_type, kind,
             n_records and n_gold (items and evidence left in the index), and the
             metrics of that level, such as recall_all@5
    """
    import pandas as pd

    plain, model = resolve(retriever, profile)
    found = {}
    for instance in instances:
        shown = build_records(instance, granularity)
        records = build_records(instance, granularity, "official")
        found[instance.question_id] = stepwise_records(
            records, expansions(shown, notes, kind)
        )
    if plain == "dense":
        embed_all(
            instances,
            lambda i: [r for step in found[i.question_id].values() for r in step],
            model,
        )
    rows = []
    for instance in instances:
        for step, records in found[instance.question_id].items():
            if not records:  # every item had an empty list
                continue
            ranking = rank(instance, records, plain, "official", model)
            scores = score_ranking(instance, ranking, granularity, "official")
            rows.append(
                {
                    "step": step,
                    "question_id": instance.question_id,
                    "question_type": instance.question_type,
                    "kind": instance.kind,
                    "n_records": len(records),
                    "n_gold": sum(record.gold for record in records),
                }
                | scores[granularity]
            )
    return pd.DataFrame(rows)
