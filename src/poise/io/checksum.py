"""A checksum inside a JSON document, of its own content: a bit that flips on disk is noticed when it is read.

checksum = SHA-256 of the content without it, as JSON with sorted keys and no spaces
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

CHECKSUM = "checksum"


def with_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content and its checksum."""
    read_back = json.loads(json.dumps(content))  # as a reader gets it: lists for tuples, words for keys
    return {**content, CHECKSUM: _checksum(read_back)}


def is_intact(content: Mapping[str, Any]) -> bool:
    """Whether it has a checksum, and it is that of the content."""
    return content.get(CHECKSUM) == _checksum(content)


def is_proved(content: Mapping[str, Any], since: int = 2) -> bool:
    """Like is_intact; versions of a format before `since` had no checksum, and need none."""
    version = content.get("version", 1)
    before = isinstance(version, int) and version < since
    return is_intact(content) if CHECKSUM in content else before


def _checksum(content: Mapping[str, Any]) -> str:
    rest = {name: each for name, each in content.items() if name != CHECKSUM}
    return sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
