"""What every peer's script shares: where the servers are, and the mark that a job leaves.

A mark is the time, written at once to a file that all processes of the peer append to; one system call, some two
microseconds, whatever the peer does with its processes.
"""

import json
import os
import struct
import sys
import time

POSTGRES = os.environ.get("BENCH_POSTGRES", "")
REDIS = os.environ.get("BENCH_REDIS", "")
FOLDER = os.environ.get("BENCH_FOLDER", ".")

_file = os.open(f"{FOLDER}/marks", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def mark():
    os.write(_file, struct.pack("d", time.time()))


def main(fill, work):
    """`fill COUNT [DUE]` queues jobs, due at a time or at once; `work CASE COUNT` is one of so many workers until it is
    stopped.
    """
    if sys.argv[1] == "work":
        work()
        return
    due = float(sys.argv[3]) if len(sys.argv) > 3 else None
    started = time.time()
    told = fill(int(sys.argv[2]), due) or {}
    print(json.dumps({"seconds": time.time() - started, "due": due} | told), flush=True)
