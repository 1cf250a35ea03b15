"""The words that all schemas are written in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 200}
TOKEN: Schema = {"type": "string", "pattern": "^\\.*[A-Za-z0-9_-][A-Za-z0-9._-]*$", "maxLength": 64}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
TIME: Schema = {"type": "string", "format": "date-time"}
TIME_OR_NULL: Schema = {"type": ["string", "null"], "format": "date-time"}
COUNT: Schema = {"type": "integer", "minimum": 0}
COUNT_OR_NULL: Schema = {"type": ["integer", "null"]}
NUMBER: Schema = {"type": "number"}
DURATION: Schema = {"type": ["string", "number"], "examples": ["30s", "1h30m"]}
FLAG: Schema = {"type": "boolean"}
TRUE: Schema = {"const": True}
OBJECT: Schema = {"type": "object"}
ANY: Schema = {}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def one_of(names: Iterable[str]) -> Schema:
    return {"type": "string", "enum": list(names)}


def array(item: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": item, **more}


def record(properties: Schema, *, optional: Iterable[str] = (), **more: Any) -> Schema:
    """What is answered: every property is there but the optional ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, **more}


def sent(properties: Schema, *required: str) -> Schema:
    """What is asked for: null is the same as absent, and nothing else is taken."""
    told = {name: each if name in required else or_null(each) for name, each in properties.items()}
    return {"type": "object", "properties": told, "required": list(required), "additionalProperties": False}


def or_null(schema: Schema) -> Schema:
    if "type" not in schema:
        return schema
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    told = {**schema, "type": [*types, *(["null"] if "null" not in types else [])]}
    return told | {"enum": [*schema["enum"], None]} if "enum" in schema else told


def listing(name: str, item: str) -> Schema:
    return record({name: array(ref(item))})


def page(name: str, item: str) -> Schema:
    return record({name: array(ref(item)), "next_cursor": TEXT_OR_NULL})
