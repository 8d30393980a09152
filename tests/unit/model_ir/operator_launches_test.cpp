// Kernels that recorded ATen operators launch. The numbers are those that PyTorch 2.11.0
// launches in dry runs (HEADROOM_GPU_CC=90), operator by operator.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/spec/recording/recording.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/recording/operator_launches.h"

namespace headroom::ir {
namespace {

using torch::Shape;
using torch::Tensor;
using transformers::launch_rule_of;
using transformers::launches_of;

struct Call {
  Instruction instruction;
  std::vector<std::pair<Shape, DType>> inputs;
  std::vector<std::pair<Shape, DType>> outputs;
};

std::int64_t launches(const Call& call) {
  torch::Eager eager{DeviceTraits{}};
  const auto made = [&eager](const std::vector<std::pair<Shape, DType>>& tensors) {
    std::vector<Tensor> result;
    for (const auto& [shape, dtype] : tensors) {
      result.push_back(eager.empty(shape, dtype));
    }
    return result;
  };
  const std::vector<Tensor> inputs = made(call.inputs);
  const std::vector<Tensor> outputs = made(call.outputs);
  return launches_of(launch_rule_of(call.instruction), call.instruction, inputs, outputs, false);
}

Instruction named(std::string name) {
  Instruction instruction;
  instruction.name = std::move(name);
  return instruction;
}

constexpr DType kHalf = DType::kBf16;
constexpr DType kFp32 = DType::kFp32;
constexpr DType kInt = DType::kInt64;

}  // namespace

TEST_CASE("launches: most operators launch one kernel, unless offsets need more than 32 bits") {
  CHECK(launches({named("mul"), {{{1024, 4096}, kHalf}}, {{{1024, 4096}, kHalf}}}) == 1);
  // Each half of 256,000 x 8,192 numbers in bf16 has offsets below 2^31 bytes.
  CHECK(launches({named("fill_"), {}, {{{256000, 8192}, kHalf}}}) == 2);
}

TEST_CASE("launches: gradients of slices and padding are filled with zeros first") {
  CHECK(launches({named("slice_backward"), {{{2, 64}, kHalf}}, {{{2, 128}, kHalf}}}) == 2);
  CHECK(launches({named("constant_pad_nd"), {{{2, 512}, kInt}}, {{{2, 513}, kInt}}}) == 2);
}

TEST_CASE("launches: up to 128 tensors of up to four dimensions are concatenated by one kernel") {
  const std::pair<Shape, DType> four{{2, 8, 512, 64}, kHalf};
  const std::pair<Shape, DType> five{{2, 8, 512, 64, 2}, kHalf};
  CHECK(launches({named("cat"), {four, four}, {{{2, 8, 512, 128}, kHalf}}}) == 1);
  CHECK(launches({named("stack"), {four, four}, {five}}) == 2);
  CHECK(launches({named("cat"), {four}, {four}}) == 0);
  CHECK(launches({named("cat"), std::vector(200, four), {{{400, 8, 512, 64}, kHalf}}}) == 2);
  CHECK(launches({named("cat"), {four, {four.first, kFp32}}, {{{4, 8, 512, 64}, kFp32}}}) == 2);
}

TEST_CASE("launches: sorts, scans and selections") {
  CHECK(launches({named("cumsum"), {{{2, 512}, DType::kBool}}, {{{2, 512}, kInt}}}) == 2);
  CHECK(launches({named("cumsum"), {{{2, 512}, kInt}}, {{{2, 512}, kInt}}}) == 1);
  CHECK(launches({named("cumsum"), {{{8}, kFp32}}, {{{8}, DType::kInt32}}}) == 3);
  CHECK(launches({named("sort"), {{{4096}, kInt}}, {{{4096}, kInt}}}) == 2);
  CHECK(launches({named("sort"), {{{5000}, kInt}}, {{{5000}, kInt}}}) == 11);
  CHECK(launches({named("topk"), {{{1024, 64}, kFp32}}, {{{1024, 8}, kFp32}}}) == 2);
  CHECK(launches({named("topk"), {{{1024, 64}, kFp32}}, {{{1024, 1}, kFp32}}}) == 1);
}

TEST_CASE("launches: gradients of rows that were taken by index are added up in order") {
  Instruction adds = named("index_put");
  adds.accumulates = true;
  const auto call = [](const Instruction& instruction, std::int64_t rows) {
    const std::pair<Shape, DType> all{{rows, 256}, kHalf};
    return launches({instruction, {all, {{rows}, kInt}, all}, {all}});
  };
  CHECK(call(named("index_put"), 2048) == 1);
  CHECK(call(adds, 2304) == 6);
  CHECK(call(adds, 2560) == 9);
  const auto embedding = [](std::int64_t tokens) {
    return launches({named("embedding_dense_backward"),
                     {{{tokens, 256}, kHalf}, {{tokens}, kInt}},
                     {{{1000, 256}, kHalf}}});
  };
  CHECK(embedding(3072) == 2);
  CHECK(embedding(3073) == 21);
}

TEST_CASE("launches: copies that keep the order of elements need no kernel") {
  const std::pair<Shape, DType> rows{{1024, 4096}, kHalf};
  Instruction power = named("pow");
  CHECK(launches({power, {rows}, {rows}}) == 2);  // A number to the power of a tensor.
  power.exponent = 2.0;
  CHECK(launches({power, {rows}, {rows}}) == 1);
  power.exponent = 1.0;
  CHECK(launches({power, {rows}, {rows}}) == 0);
  Instruction clone = named("clone");
  CHECK(launches({clone, {rows}, {rows}}) == 1);
  clone.as_it_lies = true;
  CHECK(launches({clone, {rows}, {rows}}) == 0);
  CHECK(launches({named("copy_"), {rows, rows}, {rows}}) == 0);
  CHECK(launches({named("copy_"), {rows, {rows.first, kFp32}}, {rows}}) == 1);
}

}  // namespace headroom::ir
