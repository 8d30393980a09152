#pragma once

#include "cli/command.h"

/// The verbs of the program, each in the file of its name; `explain` is in that of `plan`.
namespace headroom::cli {

/// `headroom catalog models|gpus|nodes|links`: what is known by name.
[[nodiscard]] Command catalog_command();

/// `headroom emit FRAMEWORK MODEL`: the configuration that does what the plan says.
[[nodiscard]] Command emit_command();

/// `headroom explain MODEL --gpu NAME --gpus N`: why this plan and not another; what would make an
/// infeasible request feasible.
[[nodiscard]] Command explain_command();

/// `headroom fit MODEL --gpu G`: the verdict, the peak and what to change.
[[nodiscard]] Command fit_command();

/// `headroom graph MODEL`: the operators of a forward pass as Graphviz text.
[[nodiscard]] Command graph_command();

/// `headroom plan MODEL --gpu NAME --gpus N`: the best plan, proven, and replayed.
[[nodiscard]] Command plan_command();

/// `headroom sweep MODEL... --gpu NAME,.. --gpus N,..`: the best plan of every combination, a line
/// each; a rerun adds what is missing.
[[nodiscard]] Command sweep_command();

/// `headroom timeline MODEL --gpu G --format F`: the whole history of a run, for other programs.
[[nodiscard]] Command timeline_command();

/// `headroom validate measured PATH...`: predicts measured runs and compares.
[[nodiscard]] Command validate_command();

}  // namespace headroom::cli
