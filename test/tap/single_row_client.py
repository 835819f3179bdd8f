"""A libpq client in single-row mode that reads a row only when it is told to.

    single_row_client.py CONNINFO SQL

Commands on stdin, one a line, each answered by one line on stdout:

    next    waits for the next row: its columns joined by "|", or "end", or "error SQLSTATE"
    poll    the same if it is here already, else "nothing"

While no command comes, nothing is read from the socket.
"""
import select
import sys

from psycopg import pq

NEXT = pq.ExecStatus.SINGLE_TUPLE


def describe(connection, result):
    if result is None:
        return "end"
    if result.status == NEXT:
        columns = [result.get_value(0, i) for i in range(result.nfields)]
        return "|".join("" if c is None else c.decode()[:60].replace("\n", " ") for c in columns)
    if result.status == pq.ExecStatus.TUPLES_OK:
        return "end"
    state = result.error_field(pq.DiagnosticField.SQLSTATE)
    return "error " + (state.decode() if state else "connection")


def read_row(connection, wait):
    while connection.is_busy():
        ready, _, _ = select.select([connection.socket], [], [], None if wait else 0)
        if not ready:
            return "nothing"
        try:
            connection.consume_input()
        except Exception:
            return "error connection"
    return describe(connection, connection.get_result())


def main():
    connection = pq.PGconn.connect(sys.argv[1].encode())
    if connection.status != pq.ConnStatus.OK:
        sys.exit(connection.error_message.decode())
    connection.nonblocking = 1
    connection.send_query(sys.argv[2].encode())
    while connection.flush():
        pass
    connection.set_single_row_mode()
    for command in sys.stdin:
        print(read_row(connection, command.strip() == "next"), flush=True)


main()
