#pragma once

#include "cli/command.h"

/// The verbs of the program. Each is defined in the file with its name; `explain` is in plan.cpp.
namespace headroom::cli {

/// `headroom calibrate --output FILE`: measures the GPU of this machine for the time model.
[[nodiscard]] Command calibrate_command();

/// `headroom catalog models|gpus|nodes|links`: lists the known names.
[[nodiscard]] Command catalog_command();

/// `headroom compare A B [C...]`: plans side by side, what differs and what it does.
[[nodiscard]] Command compare_command();

/// `headroom dryrun --gpu G -- COMMAND...`: runs the user's own program on a GPU that computes
/// nothing, and says what its framework allocates.
[[nodiscard]] Command dryrun_command();

/// `headroom emit FRAMEWORK MODEL`: writes the framework's configuration for the plan.
[[nodiscard]] Command emit_command();

/// `headroom explain MODEL --gpu NAME --gpus N`: explains why this plan is the best, and what would
/// make an infeasible request feasible.
[[nodiscard]] Command explain_command();

/// `headroom explain --oom FILE [MODEL ...]`: reads PyTorch's out-of-memory messages, and says
/// where a run asked for that memory.
[[nodiscard]] Command explain_oom_command();
/// The option `--oom FILE` of that command.
[[nodiscard]] OptionSpec oom_option();

/// `headroom fit MODEL --gpu G`: prints the verdict, the peak and what to change.
[[nodiscard]] Command fit_command();

/// `headroom fit --program FILE`: the same for a program that a dry run has recorded.
[[nodiscard]] Command fit_program_command();

/// `headroom graph MODEL`: prints the operators of a forward pass as Graphviz text.
[[nodiscard]] Command graph_command();

/// `headroom import SOURCE --output FILE`: records a model from its own Python code.
[[nodiscard]] Command import_command();

/// `headroom plan MODEL --gpu NAME --gpus N`: finds the best plan, proves it and replays it.
[[nodiscard]] Command plan_command();

/// `headroom snapshot FILE...`: reads PyTorch's memory snapshots: what is alive at the peak, what
/// grows, and what differs from a prediction.
[[nodiscard]] Command snapshot_command();

/// `headroom sweep MODEL... --gpu NAME,.. --gpus N,..`: finds the best plan for every combination
/// and writes one line for each. A rerun adds the missing ones.
[[nodiscard]] Command sweep_command();

/// `headroom timeline MODEL --gpu G --format F`: exports the whole timeline of a run for other
/// programs.
[[nodiscard]] Command timeline_command();
/// `headroom timeline --program FILE`: that of a program that a dry run has recorded.
[[nodiscard]] Command timeline_program_command();

/// `headroom validate measured PATH...`: predicts measured runs and compares the results.
[[nodiscard]] Command validate_command();

/// `headroom validate PLAN.json --with dryrun|torch`: trains what the plan says with PyTorch, and
/// compares what its allocator did with the prediction.
[[nodiscard]] Command validate_plan_command();
/// `headroom validate PLAN.json [--device cpu]`: runs what the plan says with the executor, and
/// compares what its allocator did with the prediction.
[[nodiscard]] Command validate_executor_command();

/// The option `--device DEVICE` of that command.
[[nodiscard]] OptionSpec executor_device_option();

/// The option `--with HOW` of `validate_plan_command`.
[[nodiscard]] OptionSpec with_option();

/// `headroom weights MODEL`: what the weights of a checkpoint take, stored and loaded.
[[nodiscard]] Command weights_command();

}  // namespace headroom::cli
