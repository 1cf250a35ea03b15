"""Writes src/types.ts from the description of the API: `make types`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

from starlette.requests import Request
from starlette.routing import Route

from horae.api.access import OpenAccess
from horae.api.app import Around, make_app
from horae.commands import Commands

FILE = Path(__file__).parent / "src" / "types.ts"
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def api_description() -> dict[str, Any]:
    """The OpenAPI document, of an app that nobody will ask anything else."""
    nothing = cast("Any", None)
    commands = Commands(nothing, nothing, str, nothing, ())
    app = make_app(
        commands=commands, views=nothing, access=OpenAccess(), around=Around(nothing, nothing, nothing, nothing)
    )
    route = next(route for route in app.routes if isinstance(route, Route) and route.path == "/openapi.json")
    answer = asyncio.run(route.endpoint(cast("Request", None)))
    return cast("dict[str, Any]", json.loads(answer.body))


def types_text(description: dict[str, Any]) -> str:
    parts = ["// Made from the OpenAPI file by api_types.py; do not edit. `make types` writes it anew.\n"]
    for name, schema in sorted(description["components"]["schemas"].items()):
        parts.append(f"export type {name} = {_type(schema)};\n")
    operations = {
        operation["operationId"]: {"role": operation["x-horae-role"], "scope": operation["x-horae-scope"]}
        for methods in description["paths"].values()
        for word, operation in methods.items()
        if word != "parameters" and isinstance(operation, dict) and "x-horae-role" in operation
    }
    lines = [f"  {name}: {json.dumps(value)}," for name, value in sorted(operations.items())]
    about = "// The least role of every operation, and the scope that it belongs to."
    head = "export const NEEDS: Record<string, { role: string; scope: string }> = {"
    return "\n".join([*parts, about, head, *lines, "};", ""])


def _type(schema: dict[str, Any], depth: int = 0) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    for word in ("oneOf", "anyOf"):
        if word in schema:
            return " | ".join(_type(part, depth) for part in schema[word])
    kinds = schema.get("type", [])
    found = [_of_kind(kind, schema, depth) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    return " | ".join(found) or "unknown"


def _of_kind(kind: str, schema: dict[str, Any], depth: int) -> str:
    if kind == "array":
        return f"({_type(schema.get('items', {}), depth)})[]"
    if kind != "object":
        return PLAIN[kind]
    fields = schema.get("properties")
    if not fields:
        others = schema.get("additionalProperties", {})
        return f"Record<string, {_type(others if isinstance(others, dict) else {}, depth)}>"
    pad, needed = "  " * (depth + 1), set(schema.get("required", []))
    lines = [
        f"{pad}{json.dumps(name) if not name.isidentifier() else name}{'' if name in needed else '?'}: "
        f"{_type(field, depth + 1)};"
        for name, field in fields.items()
    ]
    return "{\n" + "\n".join(lines) + "\n" + "  " * depth + "}"


if __name__ == "__main__":
    FILE.write_text(types_text(api_description()))
