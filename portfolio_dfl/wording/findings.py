"""What pydantic finds wrong with values, said in the words of a configuration: the key, what it needs, what it got."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from typing import Any

__all__ = ["explain_findings"]

_WHOLE, _TRUTH, _LIST = "a whole number", "true or false", "a list"
_DATE, _MAPPING = "a date such as 2020-01-31", "keys with a value each"
# What a value must be at all.
_KINDS = {
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": "a smaller number",
    "int_from_float": _WHOLE,
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "string_type": "text",
    "path_type": "a path",
    "date_type": _DATE,
    "date_parsing": _DATE,
    "date_from_datetime_parsing": _DATE,
    "date_from_datetime_inexact": _DATE,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "is_instance_of": _LIST,
    "sequence_str": _LIST,
    "dict_type": _MAPPING,
    "mapping_type": _MAPPING,
    "model_type": "a section with keys below it",
}
# What a value of the right kind must be besides; of the wrong kind, pydantic does not ask.
_RANGES = {
    "finite_number": "a finite number",
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than": "a number below {lt:g}",
    "less_than_equal": "a number of at most {le:g}",
    "string_too_short": "some text",
    "string_too_long": "text of at most {max_length} characters",
    "string_unicode": "text in Unicode",
    "string_pattern_mismatch": "a name of letters, digits, . _ - that begins with none of . and -",
    "too_short": "a list of at least {min_length}",
    "literal_error": "{expected}",
}
# What YAML takes words without quotes for; a truth value is a whole number too.
_READ_BY_YAML: dict[type, str] = {
    bool: "a truth value",
    int: "a number",
    float: "a number",
    dt.date: "a date",
    type(None): "no value",
}
_MARK_OF_KEYS = "[key]"


def explain_findings(
    findings: Sequence[Any], values: Mapping[str, Any], nullable: Collection[str] = frozenset()
) -> list[str]:
    """One clause for each key that something is wrong with.

    Parameters
    ----------
    findings : sequence
        Of ``ValidationError.errors()``.
    values : mapping
        What was validated.
    nullable : collection of str
        Dotted keys that may be null.

    Returns
    -------
    list of str
        In the order of the keys' first findings.
    """
    places: dict[tuple[object, ...], list[Any]] = {}
    for finding in findings:
        places.setdefault(_place(finding, values), []).append(finding)
    # Where a value may be of several kinds, pydantic finds it unlike each of them: the kind that it nearly is counts.
    nearest = {
        place: found
        for place, found in places.items()
        if not any(len(other) > len(place) and other[: len(place)] == place for other in places)
    }
    return [_clause(".".join(map(str, place)), found, nullable) for place, found in nearest.items()]


def _place(finding: Any, values: Any) -> tuple[object, ...]:
    """The keys and positions on the way to a finding, without the names that pydantic gives to alternatives."""
    place: list[object] = []
    for part in finding["loc"]:
        known = values.keys() if isinstance(values, Mapping) else range(len(values) if isinstance(values, list) else 0)
        if part in known:
            values = values[part]
            place.append(part)
    return (*place, finding["loc"][-1]) if finding["type"] == "missing" else tuple(place)


def _clause(key: str, found: Sequence[Any], nullable: Collection[str]) -> str:
    near = [finding for finding in found if finding["type"] not in _KINDS] or found
    known = [finding for finding in near if finding["type"] in _KINDS or finding["type"] in _RANGES]
    if not known:
        return f"{key or 'configuration'}: {_message(near[0])}"
    if known[0]["loc"][-1] == _MARK_OF_KEYS:
        return f"{key}: only {_need(known[0])} may stand here"
    needs = list(dict.fromkeys(map(_need, known)))
    if key in nullable:
        needs.append("null")
    return f"{key}: {' or '.join(needs)} is needed, not {known[0]['input']!r}{_unquoted(known)}"


def _unquoted(found: Sequence[Any]) -> str:
    """A hint where YAML made something else of a text without quotes, such as 000001, ON or 2020-01-31."""
    value = found[0]["input"]
    read = next((name for kind, name in _READ_BY_YAML.items() if isinstance(value, kind)), None)
    if read is None or found[0]["type"] != "string_type":
        return ""
    return f", {read} to YAML; write it in quotes, as in 'ON' or '000001'"


def _need(finding: Any) -> str:
    text = _KINDS.get(finding["type"]) or _RANGES[finding["type"]]
    return text.format(**finding.get("ctx", {}))


def _message(finding: Any) -> str:
    message: str = finding["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    return message if finding["type"] in ("value_error", "missing") else f"{message}, not {finding['input']!r}"
