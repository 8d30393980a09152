#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model_ir/spec/recording/recording.h"

namespace headroom::ir::transformers {

/// One call of a module in recorded code, for wrappers that hook every module.
struct CodeCall {
  std::string path;         ///< Relative to the module whose code it is.
  std::uint32_t first = 0;  ///< The instructions that the call includes.
  std::uint32_t last = 0;
  std::optional<std::uint32_t> input;  ///< The value of its first positional argument.
  std::vector<std::uint32_t> outputs;  ///< Values that live on after the call.
};

/// A module and the code that its call runs.
struct CalledCode {
  const RecordedCode& code;
  const RecordedScope& scope;
  const std::vector<std::uint32_t>& outputs;  ///< Values that are read after the code.
  const std::vector<RecordedLayer>& layers;   ///< Those that the code may call.
  std::uint32_t module = 0;
};

/// The calls of modules in a code, in the order in which they begin, outer ones first. Linear
/// layers and the layers of the model are not among them.
///
/// Model:  a recording has the calls of modules that own parameters. Others are inferred: a module
///         runs from its first to its last inner call; one that has none runs where its buffer is
///         read, or where the operator of its class is. Attention is called with keywords, all
///         other modules with a positional argument.
/// Ignores: modules without parameters, buffers and inner calls whose class is not known.
[[nodiscard]] std::vector<CodeCall> calls_of(const Recording& recording, const CalledCode& called);

/// The calls of modules in all code of a variant.
class ModuleCalls {
 public:
  /// The calls of one code, and the index of the module of each.
  struct Code {
    std::span<const CodeCall> calls;
    std::span<const std::uint32_t> modules;
  };
  ModuleCalls(const Recording& recording, const RecordedVariant& variant);

  [[nodiscard]] Code forward() const { return {forward_, forward_modules_}; }
  [[nodiscard]] Code layer(std::size_t index) const {
    return {bodies_[bodies_of_layers_[index]], layer_modules_[index]};
  }

 private:
  std::vector<CodeCall> forward_;
  std::vector<std::vector<CodeCall>> bodies_;
  std::vector<std::uint32_t> bodies_of_layers_;
  std::vector<std::uint32_t> forward_modules_;
  std::vector<std::vector<std::uint32_t>> layer_modules_;
};

}  // namespace headroom::ir::transformers
