"""Writes the tables of an export of Nsight Systems that `headroom snapshot` reads, with made-up events.

    nsight.py nsight.sqlite
    nsight.py nsight_views.sqlite views      The names of GPUs and processes are views that make texts of 500 MB.
    nsight.py nsight_events.sqlite events    The events are such a view.
"""
import os
import sqlite3
import sys

PROCESS = 4321
GLOBAL_PID = (17 << 48) | (PROCESS << 24)
MIB = 1 << 20


_HUGE = "hex(zeroblob(250000000))"


def main(path, views=""):
    if os.path.exists(path):
        os.remove(path)
    base = sqlite3.connect(path)
    base.execute("PRAGMA page_size = 1024")
    base.execute("CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT NULL,"
                 " deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, address INTEGER NOT NULL, pc INTEGER NOT NULL,"
                 " bytes INTEGER NOT NULL, memKind INTEGER NOT NULL, memoryOperationType INTEGER NOT NULL, name TEXT)")
    base.execute("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT)")
    base.execute("CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT)")
    base.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3')")
    base.execute("INSERT INTO PROCESSES VALUES (?, ?, 'python3')", (GLOBAL_PID, PROCESS))
    # Seconds, MiB, kind (2: device, 1: pinned), operation (0: allocation, 1: release).
    events = [(0, 20, 2, 0), (600, 2, 2, 0), (900, 512, 1, 0), (1200, 1024, 2, 0), (1800, 20, 2, 1), (3600, 200, 2, 0)]
    for address, (seconds, size, kind, operation) in enumerate(events):
        row = (seconds * 10**9, GLOBAL_PID, 0, 1, address, 0, size * MIB, kind, operation, None)
        base.execute(f"INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES ({','.join('?' * 10)})", row)
    if views == "views":
        base.execute("DROP TABLE TARGET_INFO_GPU")
        base.execute("DROP TABLE PROCESSES")
        base.execute(f"CREATE VIEW TARGET_INFO_GPU AS SELECT 0 AS id, {_HUGE} AS name")
        base.execute(f"CREATE VIEW PROCESSES AS SELECT {PROCESS} AS pid, {_HUGE} AS name")
    if views == "events":
        base.execute("ALTER TABLE CUDA_GPU_MEMORY_USAGE_EVENTS RENAME TO own")
        base.execute(
            "CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS AS SELECT start, globalPid, deviceId, memKind, memoryOperationType,"
            f" length({_HUGE} || start) AS bytes FROM own")
    base.commit()
    base.execute("VACUUM")
    base.close()


main(*sys.argv[1:])
