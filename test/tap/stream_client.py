"""Prints each row of a query as psycopg's stream() hands it over: libpq's single-row mode.

Usage: stream_client.py CONNINFO QUERY
"""
import sys

import psycopg

with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    for row in connection.cursor().stream(sys.argv[2]):
        print(*row, sep="|", flush=True)
