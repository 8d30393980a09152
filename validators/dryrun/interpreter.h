#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model_ir/base/result.h"
#include "validators/dryrun/launcher.h"

namespace headroom::check {

/// The Python that a command runs in, as far as its name or its first line tells: `python3` itself,
/// or the interpreter of a script such as torchrun. Nothing for other commands.
[[nodiscard]] std::optional<std::string> interpreter_of(const std::vector<std::string>& command);

/// What an interpreter says about its PyTorch.
struct FoundTorch {
  bool answered = false;  ///< False: it did not run, and nothing else is known.
  std::string version;    ///< "2.11.0+cu130"; empty: no PyTorch.
  std::string cuda;       ///< "13.0"; empty: a build without CUDA.
  std::string hip;        ///< "6.2": a build for AMD's GPUs.
  bool shared = true;     ///< Whether it loads the CUDA runtime as a shared library.
};

/// Asks an interpreter which PyTorch it has, without importing it.
[[nodiscard]] FoundTorch torch_of(const std::string& interpreter);

/// Refuses a command whose PyTorch cannot run on the stand-in.
///
/// Errors:  kEnvironment: no PyTorch, a build without CUDA or for AMD's GPUs, a CUDA release that
///          is neither 12 nor 13, a static CUDA runtime.
[[nodiscard]] Status check_interpreter(const std::vector<std::string>& command);

/// Why no process of a program that ended reported a phase, and what to do.
[[nodiscard]] Error no_report(const std::vector<std::string>& command, const DryRunEnd& end);

}  // namespace headroom::check
