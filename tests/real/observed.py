"""Compares a row as the dry run's observer saw it, which nobody told the phases, with the recorded row."""
FIGURES = ("peak_allocated", "peak_reserved")
COUNTS = ("work", "alloc_events")  # The observer reads them at its own ends of phases.


def without_counts(found):
    """The differences of a watched row, in which two read the same counters."""
    return [difference for difference in found if difference[1] not in COUNTS]


def phase_name(phase, pieces):
    """A phase of the dry run's JSON as tests/measured calls it."""
    if phase["name"] == "load":
        return "load"
    piece = f".{phase['micro_batch']}" if pieces > 1 and phase["name"] in ("forward", "backward") else ""
    return f"step{phase['step']}{piece}.{phase['name']}"


def differences(row, dry_run):
    """[(phase, figure, seen, recorded)] of the phases that the observer has a name for."""
    if "processes" not in dry_run:
        return [("the dry run", "processes", "none", "one")]
    process = dry_run["processes"][dry_run["binding"]]
    seen = {phase_name(phase, row["case"].get("accumulation", 1)): phase for phase in process["phases"]}
    found = []
    for recorded in row.get("phases", []):
        name = recorded["phase"]
        if name not in seen:
            if not name.endswith("zero_grad"):
                found.append((name, "phase", "not seen", "there"))
            continue
        found += [(name, f"seen {figure}", seen[name][f"{figure}_bytes"], recorded[figure]) for figure in FIGURES
                  if seen[name][f"{figure}_bytes"] != recorded[figure]]
    return found
