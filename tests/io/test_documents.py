"""A checksum inside a document notices every flipped bit, and is the same however the document is written."""

import json
from hashlib import sha256

from poise.io.documents import is_intact, is_proved, with_checksum

CONTENT = {"version": 2, "b": [1, 2.5, None, "ü"], "a": {"deep": (True, 1e-9)}}


def test_it_is_that_of_sorted_json_without_spaces() -> None:
    plain = r'{"a":{"deep":[true,1e-09]},"b":[1,2.5,null,"\u00fc"],"version":2}'
    assert with_checksum(CONTENT)["checksum"] == sha256(plain.encode()).hexdigest()
    for written in (json.dumps(with_checksum(CONTENT)), json.dumps(with_checksum(CONTENT), indent=2, sort_keys=True)):
        assert is_intact(json.loads(written))


def test_every_flipped_bit_is_noticed() -> None:
    whole = json.dumps(with_checksum(CONTENT)).encode()
    before, found = json.loads(whole), 0
    for place in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        try:
            content = json.loads(flipped)
        except ValueError:
            continue
        if content != before:
            found += 1
            assert not is_proved(content)
    assert found > 100


def test_only_versions_that_had_none_need_none() -> None:
    assert is_proved({"version": 1}) and is_proved({})
    assert not is_proved({"version": 2}) and not is_proved({"version": "1"}) and not is_proved({"checksum": None})
