import asyncpg
import pytest

from tests.services import on_server, with_database
from tests.whole import parts, verdict


async def test_a_test_gets_a_working_postgres(postgres_database):
    connection = await asyncpg.connect(postgres_database)
    answer = await connection.fetchval("SELECT 1")
    await connection.close()

    assert answer == 1


def test_a_tests_database_is_its_own_and_empty(postgres_url, postgres_database):
    on_server(postgres_database, "CREATE TABLE thing (id integer)")

    there = "SELECT count(*) FROM pg_tables WHERE tablename = 'thing'"
    assert on_server(postgres_database, there) == 1
    assert on_server(postgres_url, there) == 0


def test_the_database_in_a_url_is_replaced_and_the_rest_kept():
    url = with_database("postgresql://me:secret@db.example:6432/old?sslmode=require", "new")

    assert url == "postgresql://me:secret@db.example:6432/new?sslmode=require"


def test_browser_tests_have_a_process_of_their_own():
    found = parts(["-k", "job"])

    assert found["suite"][-4:] == ["--ignore", "tests/browser", "-k", "job"]
    assert found["browser"] == ["tests/browser", "-k", "job"]
    assert list(parts(["tests/unit", "-x"])) == ["suite"]
    assert parts(["tests/browser/test_pages.py", "-x"]) == {"browser": ["tests/browser/test_pages.py", "-x"]}


@pytest.mark.parametrize(
    ("suite", "browser", "wanted"), [(0, 0, 0), (0, 1, 1), (1, 0, 1), (5, 0, 0), (0, 5, 0), (5, 5, 5), (5, 1, 1)]
)
def test_a_failure_of_either_process_fails_the_whole(suite, browser, wanted):
    assert verdict({"suite": suite, "browser": browser}) == wanted
