"""Every state change is one move(): guard, compare-and-set, Transition row, event on commit.

A move that lost the race changes nothing and says so; nobody sets a state column in another way.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from django.db import models, transaction
from django.db.models import Q

from apps.lifecycle.announce import announce
from apps.lifecycle.models import Transition

Edges = Mapping[str, frozenset[str]]


class IllegalMoveError(Exception):
    """The edge does not exist in the states of this model."""

    def __init__(self, what: str, before: str, after: str) -> None:
        super().__init__(f"{what} cannot go from {before} to {after}.")
        self.before = before
        self.after = after


class Stateful(models.Model):
    """A model with a state column that only move() writes."""

    EDGES: ClassVar[Edges]
    SUBJECT: ClassVar[str]

    state: Any

    class Meta:
        abstract = True

    def stream(self) -> str:
        """The event stream that hears of this object; empty for none."""
        return ""

    def move(
        self, after: str, *, actor: str = "assay", reason: str = "", evidence: Mapping[str, Any] | None = None
    ) -> bool:
        """Go to a state. False, and nothing changed, if another process moved it meanwhile.

        Raises IllegalMoveError for an edge that does not exist."""
        before = str(self.state)
        if after not in self.EDGES.get(before, frozenset()):
            raise IllegalMoveError(f"{self.SUBJECT} {self.pk}", before, after)
        with transaction.atomic():
            moved = models.QuerySet(type(self)).filter(Q(pk=self.pk, state=before)).update(state=after)
            if not moved:
                self.refresh_from_db(fields=["state"])
                return False
            Transition.objects.create(
                subject=self.SUBJECT,
                subject_id=self.pk,
                before=before,
                after=after,
                actor=actor,
                reason=reason,
                evidence=dict(evidence or {}),
            )
            if stream := self.stream():
                announce(stream, f"{self.SUBJECT}.{after}", reason, {"before": before, "actor": actor})
        self.state = after
        return True

    @classmethod
    def move_many(cls, ids: Iterable[int], before: Iterable[str], after: str, **fields: Any) -> int:
        """The set form: one UPDATE, guarded by the states before; the number of rows moved. Writes no Transition."""
        sources = frozenset(before)
        for source in sources:
            if after not in cls.EDGES.get(source, frozenset()):
                raise IllegalMoveError(cls.SUBJECT, source, after)
        rows: models.QuerySet[Any] = models.QuerySet(cls).filter(Q(pk__in=list(ids), state__in=sources))
        return rows.update(state=after, **fields)

    def reread(self) -> Self:
        """Itself, as the database has it now."""
        self.refresh_from_db()
        return self


def states_constraint(name: str, states: Iterable[str]) -> models.CheckConstraint:
    """Keeps the state column honest."""
    return one_of(name, "state", states)


def one_of(name: str, field: str, values: Iterable[str]) -> models.CheckConstraint:
    """The field holds one of these words."""
    return models.CheckConstraint(name=name, condition=Q(**{f"{field}__in": sorted(values)}))
