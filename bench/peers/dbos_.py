"""dbos: workflows of no steps in one queue."""

import time

import psycopg
from dbos import DBOS
from marks import POSTGRES, main, mark


@DBOS.workflow(name="noop")
def noop():
    mark()


def launch():
    DBOS(config={"name": "peer", "system_database_url": POSTGRES, "log_level": "ERROR", "run_admin_server": False})


def fill(count, due):
    from dbos import DBOSClient

    launch()
    DBOS.launch()
    DBOS.register_queue("peer", polling_interval_sec=0.05)
    DBOS.destroy()
    client = DBOSClient(system_database_url=POSTGRES)
    for _ in range(count):
        after = {"delay_seconds": due - time.time()} if due else {}
        client.enqueue({"queue_name": "peer", "workflow_name": "noop"} | after)
    client.destroy()
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        connection.execute("ANALYZE")


def work():
    launch()
    DBOS.launch()
    DBOS.register_queue("peer", polling_interval_sec=0.05)
    while True:
        time.sleep(1)


main(fill, work)
