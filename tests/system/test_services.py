import asyncpg

from tests.services import on_server, with_database


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
