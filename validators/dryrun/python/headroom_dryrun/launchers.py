"""torchrun, accelerate launch, deepspeed and multiprocessing.spawn start one process: the chosen rank."""

import os
import sys
from typing import Any, Callable, Dict, List, Sequence

from .world import rank_variables, set_rank_variables


def _execute(command: Sequence[str]) -> None:
    """Replaces this process, so that exit code and signals of the program are seen by whoever started it."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execvpe(command[0], list(command), dict(os.environ))


def _torch_agent(session: Any) -> Callable[[Any], None]:
    """For torch.distributed.launcher.api, to which torchrun, torch.distributed.launch and accelerate lead."""

    def imported(api: Any) -> None:
        def launch_agent(config: Any, entrypoint: Any, args: List[Any]) -> Dict[int, Any]:
            set_rank_variables(session.settings)
            if entrypoint is None or callable(entrypoint):
                return {session.settings.rank: entrypoint(*args) if entrypoint else None}
            _execute([str(entrypoint)] + [str(argument) for argument in args])
            return {}

        api.launch_agent = launch_agent

    return imported


def deepspeed_command(options: Any, rank: str, python: str) -> List[str]:
    """The command that deepspeed.launcher.launch would have started for this rank."""
    command: List[str] = []
    if not getattr(options, "no_python", False):
        command = [python, "-u"]
        if getattr(options, "module", False):
            command.append("-m")
    command.append(options.user_script)
    if not getattr(options, "no_local_rank", False):
        command.append(f"--local_rank={rank}")
    return command + list(options.user_args)


def _deepspeed(session: Any) -> Callable[[Any], None]:
    """For deepspeed.launcher.runner, the module behind the command `deepspeed`."""

    def imported(runner: Any) -> None:
        def main(args: Any = None) -> None:
            set_rank_variables(session.settings)
            local = rank_variables(session.settings)["LOCAL_RANK"]
            _execute(deepspeed_command(runner.parse_args(args), local, sys.executable))

        runner.main = main

    return imported


def _spawn(session: Any) -> Callable[[Any], None]:
    """torch.multiprocessing.spawn(fn, nprocs=N) calls `fn` here, once."""

    def imported(module: Any) -> None:
        def spawn(fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, *rest: Any, **kwargs: Any) -> None:
            local = int(rank_variables(session.settings)["LOCAL_RANK"])
            fn(session.settings.rank if nprocs >= session.settings.world else local, *args)

        module.spawn = spawn

    return imported


def hooks(session: Any) -> Dict[str, List[Callable[[Any], None]]]:
    """Hooks for the launchers when a world is to be believed in."""
    if session.settings.world is None:
        return {}
    return {
        "torch.distributed.launcher.api": [_torch_agent(session)],
        "deepspeed.launcher.runner": [_deepspeed(session)],
        "torch.multiprocessing.spawn": [_spawn(session)],
        "torch.multiprocessing": [_spawn(session)],
    }
