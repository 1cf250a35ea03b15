"""`horae bench`: how fast horae is on a database at hand, beside the same SQL run bare."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from horae.cli.server import guarded, run_loop

if TYPE_CHECKING:
    from horae.bench.run import Bench

MISSED = 1
STOPPED = 130


@click.command()
@click.option(
    "--url", help="postgresql://… (schemas of its own are made there), or a SQLite file that is not there yet."
)
@click.option("--case", "cases", multiple=True, help="Only this case; several by commas, or by naming it again.")
@click.option("--rounds", type=click.IntRange(1), help="So many instead of those of the size.")
@click.option("--quick", is_flag=True, help="Small and once: whether it works, not how fast it is.")
@click.option("--full", is_flag=True, help="Up to ten million jobs; takes hours.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="A folder for bench.json and charts.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def bench(
    url: str | None,
    cases: tuple[str, ...],
    rounds: int | None,
    out: Path | None,
    output: str,
    *,
    quick: bool,
    full: bool,
) -> None:
    """Measure planning, claiming, settling, lateness and growth against the limit of the database itself.

    Works in schemas or files of its own and removes them (without --url a file in the temporary folder); refuses a
    database that holds jobs of horae. The cases: create, plan, drain, path, processes, http, door, lateness, herd,
    failover, idle, start, jobs, backlog, history, tenants, gates, soak.

    Exit code 1: a case broke, or a bound is missed that does not depend on how fast this machine is. Others are told
    and no more unless they are missed by a factor of three, with --quick all of them.
    """
    from horae.bench.figures import Figures
    from horae.bench.floors import ALONE
    from horae.bench.orphans import own_folder, stop_as_by_ctrl_c
    from horae.bench.place import Place
    from horae.bench.report import about, check_folder, in_memory, write
    from horae.bench.run import CASES, Bench
    from horae.bench.sizes import FULL, NORMAL, QUICK
    from horae.bench.table import as_text
    from horae.telemetry import quiet

    chosen = tuple(name for case in cases for word in case.split(",") if (name := word.strip()))
    unknown = [name for name in chosen if name not in CASES]
    if unknown:
        raise click.UsageError(f'--case: there is no case "{unknown[0]}"; there are {", ".join(CASES)}.')
    if quick and full:
        raise click.UsageError("--quick and --full: one of them.")
    quiet()
    stop_as_by_ctrl_c()
    if out:
        guarded(partial(check_folder, out))
    figures = Figures()
    size = QUICK if quick else FULL if full else NORMAL
    size = replace(size, rounds=rounds or size.rounds)
    told = about(size, chosen or tuple(CASES)) | {"stopped": False}
    with own_folder() as folder:
        if url is None:
            click.echo(f"Measures SQLite, in {folder.parent}; another database by --url.", err=True)
            if kind := in_memory(folder):
                click.echo(
                    f"{folder.parent} is {kind}, in memory: figures are too good. On a disk: --url FILE.", err=True
                )
        place = guarded(lambda: Place(str(folder / "bench.db") if url is None else url))
        work = Bench(place, size, figures, lambda told: click.echo(told, err=True), chosen or tuple(CASES))
        try:
            guarded(partial(_run, work))
        except KeyboardInterrupt:
            click.echo("Stopped; this is what was measured until then.", err=True)
            told["stopped"] = True
    for key in figures.left_out(ALONE):
        figures.remark(key.case, key.shape, "horae", f"{key.unit} cannot be measured here, and a bound is of it")
    verdicts = figures.judge(ALONE)
    if out:  # first: whoever reads what is printed may be gone by now
        write(out, told, figures, verdicts)
    text = as_text(figures, verdicts, () if chosen else ALONE)  # who names cases knows what else was not measured
    click.echo(json.dumps(figures.as_json(verdicts), indent=2) if output == "json" else text)
    if told["stopped"]:
        sys.exit(STOPPED)
    is_good = not figures.failed if quick else figures.is_good(verdicts)
    sys.exit(0 if is_good else MISSED)


def _run(bench: Bench) -> None:
    """What breaks at the very end must not cost the hours before it."""
    from horae.bench.run import run

    try:
        run_loop(run(bench))
    except Exception as error:
        if not bench.figures.values:
            raise
        bench.figures.fail("bench", bench.place.dialect, f"{type(error).__name__}: {error}")
