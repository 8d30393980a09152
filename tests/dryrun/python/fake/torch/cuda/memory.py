recorded = []  # How the memory history was switched.


def _record_memory_history(enabled="all", **options):
    recorded.append((enabled, options))


def _snapshot():
    from .. import _C

    blocks = [
        {"address": address, "size": size, "requested_size": size, "state": "active_allocated"}
        for address, size in sorted(_C.blocks.items())
    ]
    return {"segments": [{"address": 0, "device": 0, "blocks": blocks}], "device_traces": [list(_C.events)]}


def _dump_snapshot(path):
    import pickle

    with open(path, "wb") as file:
        pickle.dump(_snapshot(), file)
