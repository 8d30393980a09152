"""What `headroom dryrun` tells the processes of the user's program through environment variables."""

import dataclasses
import os
from typing import Mapping, Optional


def _number(text: Optional[str]) -> Optional[int]:
    """The integer in `text`, or None where there is none."""
    try:
        return int(text) if text else None
    except ValueError:
        return None


@dataclasses.dataclass(frozen=True)
class Settings:
    """The variables of docs/dryrun.md; sizes are bytes."""

    folder: str  # Where reports go.
    steps: int = 0  # Optimizer steps after which the process stops; 0: never.
    world: Optional[int] = None  # Ranks that the program believes in; None: as the program itself says.
    rank: int = 0
    per_node: int = 1
    routing: str = "uniform"
    snapshot: Optional[str] = None
    record: bool = False  # Whether every event of the allocator is kept.

    @staticmethod
    def from_environment(environment: Optional[Mapping[str, str]] = None) -> "Settings":
        """Reads HEADROOM_DRYRUN_*; a number that cannot be read counts as absent."""
        env = os.environ if environment is None else environment
        world = _number(env.get("HEADROOM_DRYRUN_WORLD"))
        return Settings(
            folder=env.get("HEADROOM_DRYRUN_DIR", ""),
            steps=_number(env.get("HEADROOM_DRYRUN_STEPS")) or 0,
            world=world,
            rank=_number(env.get("HEADROOM_DRYRUN_RANK")) or 0,
            per_node=_number(env.get("HEADROOM_DRYRUN_PER_NODE")) or min(world or 1, 8),
            routing=env.get("HEADROOM_DRYRUN_ROUTING") or "uniform",
            snapshot=env.get("HEADROOM_DRYRUN_SNAPSHOT") or None,
            record=bool(env.get("HEADROOM_DRYRUN_RECORD")),
        )
