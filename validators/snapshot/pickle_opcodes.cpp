#include "validators/snapshot/pickle_opcodes.h"

#include <algorithm>
#include <array>
#include <utility>

namespace headroom::check {
namespace {

constexpr std::array<std::pair<Opcode, std::string_view>, 24> kRefused = {{
    {Opcode::kPersId, "PERSID"},
    {Opcode::kBinPersId, "BINPERSID"},
    {Opcode::kReduce, "REDUCE"},
    {Opcode::kBuild, "BUILD"},
    {Opcode::kGlobal, "GLOBAL"},
    {Opcode::kInst, "INST"},
    {Opcode::kObj, "OBJ"},
    {Opcode::kNewObj, "NEWOBJ"},
    {Opcode::kExt1, "EXT1"},
    {Opcode::kExt2, "EXT2"},
    {Opcode::kExt4, "EXT4"},
    {Opcode::kEmptySet, "EMPTY_SET"},
    {Opcode::kAddItems, "ADDITEMS"},
    {Opcode::kFrozenSet, "FROZENSET"},
    {Opcode::kNewObjEx, "NEWOBJ_EX"},
    {Opcode::kStackGlobal, "STACK_GLOBAL"},
    {Opcode::kByteArray8, "BYTEARRAY8"},
    {Opcode::kNextBuffer, "NEXT_BUFFER"},
    {Opcode::kReadOnlyBuffer, "READONLY_BUFFER"},
    // Operations of protocols 0 and 1 that newer ones have replaced.
    {static_cast<Opcode>('I'), "INT"},
    {static_cast<Opcode>('L'), "LONG"},
    {static_cast<Opcode>('V'), "UNICODE"},
    {static_cast<Opcode>('g'), "GET"},
    {static_cast<Opcode>('p'), "PUT"},
}};

}  // namespace

std::optional<std::string_view> refused_opcode(Opcode opcode) {
  const auto* const found =
      std::ranges::find(kRefused, opcode, &std::pair<Opcode, std::string_view>::first);
  return found == kRefused.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace headroom::check
