"""Insert rows whose position comes from a plain sequence, as a log must not do it: URL WRITER; then lines as above."""

import os
import sys

import psycopg


def main(url: str, writer: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        os.write(1, b"ready\n")
        number = 0
        for line in sys.stdin:
            for _ in range(int(line)):
                with connection.transaction():
                    connection.execute("INSERT INTO by_sequence (name) VALUES (%s)", [f"{writer}-{number}"])
                number += 1
            os.write(1, f"done {number}\n".encode())


main(*sys.argv[1:])
