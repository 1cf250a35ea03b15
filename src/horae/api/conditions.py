"""What a change is conditional on: the versions of a job that the caller has seen, or that there is none yet."""

from __future__ import annotations

import re

from horae.api.operation import Call, Operation
from horae.core.checks import shown
from horae.core.errors import Fault, Invalid, NotFound, Stale
from horae.ports import ViewStore

IF_MATCH, IF_NONE_MATCH = "If-Match", "If-None-Match"
ANY_VERSION = 0

_TAG = re.compile(r'(?:W/)?("?)v?([1-9][0-9]{0,8})\1')


def refuse_conditions(call: Call, operation: Operation) -> None:
    """Of an operation that looks at none: who sends one must not believe that it was kept."""
    taken = {name for name in (IF_MATCH, IF_NONE_MATCH) if operation.takes_condition(name)}
    for name in {IF_MATCH, IF_NONE_MATCH} - taken:
        if operation.method != "GET" and name in call.request.headers:
            detail = f"{name} has no meaning here: what this changes has no ETag."
            raise Invalid([Fault(f"/headers/{name}", detail, f"Leave {name} out.")])


async def version_seen(call: Call, views: ViewStore) -> int | None:
    """The version that the caller has seen; any, for `*`; None when it is not said. Of several, the current one if it
    is among them.
    """
    told = call.request.headers.getlist(IF_MATCH)
    if not told:
        return None
    if [each.strip() for each in told] in (["*"], ['"*"']):
        return ANY_VERSION
    tags = [_TAG.fullmatch(each.strip()) for each in ",".join(told).split(",")]
    versions = [int(tag[2]) for tag in tags if tag is not None]
    if len(versions) < len(tags):
        detail = f'{IF_MATCH} must be a version, such as "v3", several, or *; got {shown(", ".join(told))}.'
        raise Invalid([Fault(f"/headers/{IF_MATCH}", detail, "Send the ETag of the answer that you changed.")])
    if len(versions) == 1:
        return versions[0]
    current = int((await views.job(call.caller.tenant, call.word("job")))["version"])
    return current if current in versions else versions[0]


async def is_only_new(call: Call, views: ViewStore) -> bool:
    """Whether a job is to be made and none to be changed, as `If-None-Match: *` says. Raises Stale if there is one."""
    told = call.request.headers.get(IF_NONE_MATCH)
    if told is None:
        return False
    if told.strip() != "*" or IF_MATCH in call.request.headers:
        detail = f"{IF_NONE_MATCH} can only be *, without {IF_MATCH}: make the job, unless there is one."
        raise Invalid([Fault(f"/headers/{IF_NONE_MATCH}", detail, f"Write {IF_NONE_MATCH}: *.")])
    try:
        await views.job(call.caller.tenant, call.word("job"))
    except NotFound:
        return True
    raise already_there(call.word("job"))


def already_there(word: str) -> Stale:
    hint = f"Leave {IF_NONE_MATCH} out to change it."
    return Stale(f'There is a job "{word}".', hint=hint, pointer=f"/headers/{IF_NONE_MATCH}")
