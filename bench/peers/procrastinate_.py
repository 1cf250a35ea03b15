"""procrastinate: psycopg, many jobs at once in one worker."""

import asyncio
from datetime import UTC, datetime

from marks import POSTGRES, main, mark
from procrastinate import App, PsycopgConnector

app = App(connector=PsycopgConnector(conninfo=POSTGRES, max_size=20))


@app.task(name="noop")
async def noop():
    mark()


async def fill(count, due):
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        at = {"schedule_at": datetime.fromtimestamp(due, UTC)} if due else {}
        for first in range(0, count, 1000):
            await noop.configure(**at).batch_defer_async(*[{}] * min(1000, count - first))
        await app.connector.execute_query_async("ANALYZE procrastinate_jobs")


async def work():
    async with app.open_async():
        await app.run_worker_async(
            concurrency=100, delete_jobs="always", fetch_job_polling_interval=0.1, install_signal_handlers=False
        )


main(lambda count, due: asyncio.run(fill(count, due)), lambda: asyncio.run(work()))
