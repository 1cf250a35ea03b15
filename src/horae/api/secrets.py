"""Routes of secrets. A value goes in and never comes out again."""

from __future__ import annotations

from horae.api.body import read_fields, require
from horae.api.operation import Call, Operation, Reply, Takes, delete, get, put
from horae.commands import Commands
from horae.core.duration import format_instant
from horae.core.errors import Fault, Invalid
from horae.core.secrets import check_value
from horae.ports import JsonObject, StoredRow, ViewStore

HINT = 'Write {"value": "the secret"}.'


class Secrets:
    def __init__(self, commands: Commands, views: ViewStore) -> None:
        self._commands = commands
        self._views = views

    def operations(self) -> list[Operation]:
        path, value = "/secrets/{secret}", Takes("Secret")
        return [
            get("/secrets", "listSecrets", "Names of secrets, never values", self.list, gives="SecretList"),
            put(path, "putSecret", "Set a secret", self.put, (), value, "SecretAnswer", also={201: "SecretAnswer"}),
            delete(path, "deleteSecret", "Forget a secret", self.delete, gives="DeletedSecret"),
        ]

    async def list(self, call: Call) -> Reply:
        return Reply({"secrets": [_answer(row) for row in await self._views.secrets(call.caller.tenant)]})

    async def put(self, call: Call) -> Reply:
        document = await call.document()
        if not isinstance(document, dict):
            # Who forgets the braces sends the bare secret: other routes show what they got, this one must not.
            raise Invalid([Fault("", "The document must be an object with the secret as its value.", HINT)])
        fields = read_fields(document, {"value": check_value}, deep=False)
        require(fields, {"value": HINT})
        row = await self._commands.secrets.put(call.caller, call.word("secret"), fields["value"])
        return Reply(_answer(row), 201 if row["version"] == 1 else 200)

    async def delete(self, call: Call) -> Reply:
        name = call.word("secret")
        await self._commands.secrets.delete(call.caller, name)
        return Reply({"deleted": True, "name": name})


def _answer(row: StoredRow) -> JsonObject:
    return {
        "name": row["name"],
        "version": row["version"],
        "created_at": format_instant(row["created_us"]),
        "updated_at": format_instant(row["updated_us"]),
    }
