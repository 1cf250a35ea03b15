"""`horae bench`: how fast horae is on a database at hand, beside the same SQL run bare."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import click

from horae.cli.server import guarded, run_loop

BELOW = 1


@click.command()
@click.option(
    "--url", help="postgresql://… (a schema of its own is made there), or a SQLite file that is not there yet."
)
@click.option("--case", "cases", multiple=True, help="Only this case; any number of them.")
@click.option("--quick", is_flag=True, help="Small and once: whether it works, not how fast it is.")
@click.option("--full", is_flag=True, help="Up to ten million jobs; takes hours.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def bench(url: str | None, cases: tuple[str, ...], output: str, *, quick: bool, full: bool) -> None:
    """Measure planning, claiming, settling, lateness and growth against the limit of the database itself.

    Works in a schema or a file of its own and removes it; refuses a database that holds jobs of horae.
    Exit code 1: a case broke, or a ratio is below its floor; with --quick floors are told and no more.
    """
    from horae.bench.figures import Figures
    from horae.bench.floors import FLOORS
    from horae.bench.place import Place
    from horae.bench.run import CASES, Bench, run
    from horae.bench.sizes import FULL, NORMAL, QUICK
    from horae.bench.table import as_text
    from horae.telemetry import quiet

    unknown = [name for name in cases if name not in CASES]
    if unknown:
        raise click.UsageError(f'--case: there is no case "{unknown[0]}"; there are {", ".join(CASES)}.')
    quiet()
    figures = Figures()
    size = QUICK if quick else FULL if full else NORMAL
    with tempfile.TemporaryDirectory(prefix="horae-bench-") as folder:
        place = Place(url or str(Path(folder) / "bench.db"))
        work = Bench(place, size, figures, lambda told: click.echo(told, err=True))
        guarded(lambda: run_loop(run(work, cases or tuple(CASES))))
    verdicts = figures.judge(FLOORS)
    click.echo(json.dumps(figures.as_json(verdicts), indent=2) if output == "json" else as_text(figures, verdicts))
    is_good = not figures.failed if quick else figures.is_good(verdicts)
    sys.exit(0 if is_good else BELOW)
