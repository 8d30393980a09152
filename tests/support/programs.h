#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model_ir/plan/rank_program.h"

namespace headroom::test {

/// Writes a `RankProgram` by hand, event by event.
class ProgramWriter {
 public:
  ProgramWriter& phase(const std::string& name) {
    close();
    program_.phases.push_back({.name = ir::parse_phase_name(name),
                               .begin = program_.events.size(),
                               .end = 0,
                               .work = {}});
    return *this;
  }
  ProgramWriter& at(std::int32_t layer, const std::string& operation, bool backward = false) {
    program_.operations.push_back(operation);
    program_.sites.push_back(
        {.layer = layer,
         .operation = static_cast<std::uint16_t>(program_.operations.size() - 1),
         .backward = backward});
    return *this;
  }
  /// Allocates a block and returns its id.
  ir::BlockId allocate(std::int64_t bytes, ir::TensorRole role = ir::TensorRole::kActivation) {
    add(ir::EventKind::kAllocate, program_.blocks, bytes, role);
    return program_.blocks++;
  }
  ProgramWriter& free(ir::BlockId block) {
    add(ir::EventKind::kFree, block, 0, ir::TensorRole::kTemporary);
    return *this;
  }
  [[nodiscard]] ir::RankProgram finish() {
    close();
    return program_;
  }

 private:
  void add(ir::EventKind kind, ir::BlockId block, std::int64_t bytes, ir::TensorRole role) {
    if (program_.sites.empty()) {
      at(-1, "");
    }
    program_.events.push_back({.kind = kind,
                               .role = role,
                               .stream = 0,
                               .reserved = 0,
                               .block = block,
                               .bytes = bytes,
                               .site = static_cast<std::uint32_t>(program_.sites.size() - 1)});
  }
  void close() {
    if (!program_.phases.empty()) {
      program_.phases.back().end = program_.events.size();
    }
  }

  ir::RankProgram program_;
};

}  // namespace headroom::test
