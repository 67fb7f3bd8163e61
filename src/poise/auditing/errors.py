"""What a user can get wrong with an audit, each in one sentence that says what to do."""

from __future__ import annotations


class AuditError(Exception):
    """A model, data or a condition that an audit cannot work with."""
