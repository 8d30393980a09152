#include "runtimes/torch/ddp.h"

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/torch/foreach.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/optimizer.h"
#include "tests/support/event_text.h"

// Event sequences were recorded with PyTorch 2.11.0, DistributedDataParallel(bucket_cap_mb=1500 /
// 2**20) on rank 0 of 8, over four linear layers without bias, two micro-batches of [1, 2, 8].
namespace headroom::ir::torch {
namespace {

using Assignment = std::vector<std::vector<std::size_t>>;

struct Toy {
  bool view = false;
  bool frozen_first = false;
  bool init_sync = false;
};

RankProgram train_toy(const Toy& toy) {
  Eager eager{DeviceTraits{}};
  eager.begin_phase(parse_phase_name("load"));
  const std::vector<Tensor> weights{eager.parameter({16, 8}, DType::kBf16, !toy.frozen_first),
                                    eager.parameter({24, 16}, DType::kFp32, true),
                                    eager.parameter({40, 24}, DType::kBf16, true),
                                    eager.parameter({4, 40}, DType::kBf16, true)};
  const std::vector<Tensor> buffers{eager.empty({3}, DType::kFp32, TensorRole::kBuffer),
                                    eager.empty({5}, DType::kInt64, TensorRole::kBuffer),
                                    eager.empty({3}, DType::kFp32, TensorRole::kBuffer)};
  Ddp ddp(
      eager,
      {.gradient_as_bucket_view = toy.view, .bucket_cap_bytes = 1500, .init_sync = toy.init_sync},
      8, weights, buffers);
  eager.end_phase();
  for (const char* micro_batch : {"first", "second"}) {
    eager.begin_phase(parse_phase_name(std::string(micro_batch) + ".forward"));
    Tensor input = eager.empty({1, 2, 8}, DType::kBf16);
    ddp.before_forward();
    Tensor output = input;
    for (const Tensor& weight : weights) {
      output = to(eager, output, weight.dtype());
      output = linear(eager, output, weight, Tensor{});
    }
    eager.end_phase();
    eager.begin_phase(parse_phase_name(std::string(micro_batch) + ".backward"));
    Tensor seed = eager.empty(output.shape(), output.dtype());
    eager.backward(output, seed);
    input.reset();
    output.reset();
    seed.reset();
    eager.end_phase();
  }
  eager.begin_phase(parse_phase_name("evaluation"));
  {
    const GradMode no_grad(eager, false);
    ddp.before_forward();
  }
  eager.end_phase();
  eager.begin_phase(parse_phase_name("zero_grad"));
  zero_grad(eager, weights);
  eager.end_phase();
  return eager.finish();
}

std::string collectives_of(const RankProgram& program, std::string_view phase) {
  std::string text;
  for (const Work::Collective& each : test::find_phase(program, phase)->work.collectives) {
    text += std::string(name_of(each.kind)) + " of " + std::to_string(each.ranks) + ": " +
            std::to_string(each.calls) + " calls, " + std::to_string(each.bytes) + " bytes\n";
  }
  return text;
}

}  // namespace

TEST_CASE("ddp: buckets per type, rebuilt before the second forward in order of arrival") {
  const RankProgram program = train_toy({.view = false});
  CHECK(test::events_of(program, "load") ==
        "+256#0 +1536#1 +1920#2 +320#3 +12#4 +40#5 +12#6 +1536#7 +2496#8");
  CHECK(test::events_of(program, "first.forward") ==
        "+32#9 +24#10 -10 +64#11 +33554432#12 +128#13 -11 +192#14 +96#15 -14 +160#16 +16#17");
  CHECK(test::events_of(program, "first.backward") ==
        "+16#18 +320#19 +33554432#20 +160#21 -16 +1920#22 +96#23 -21 -15 +192#24 -23 +1536#25 "
        "+128#26 -24 -13 +64#27 -26 +256#28 -27 -9 -17 -18");
  CHECK(test::events_of(program, "second.forward") ==
        "+32#29 +20#30 +12#31 -31 -30 -7 -8 +2240#32 +1536#33 +256#34 +24#35 -35 +64#36 +128#37 "
        "-36 +192#38 +96#39 -38 +160#40 +16#41");
  CHECK(test::events_of(program, "second.backward") ==
        "+16#42 +320#43 +160#44 -40 -43 +1920#45 +96#46 -44 -39 -45 +192#47 -46 +1536#48 "
        "+128#49 -47 -37 -48 +64#50 -49 +256#51 -50 -51 -29 -41 -42");
  CHECK(test::events_of(program, "zero_grad") == "-28 -25 -22 -19");
}

TEST_CASE("ddp: ranks compare shapes, and rank 0 sends parameters and buffers of each type") {
  const RankProgram program = train_toy({.frozen_first = true, .init_sync = true});
  // Own number of trained parameters, those of 8 ranks, all of them together; 12 sizes and strides;
  // then 2,496 bytes of bf16 weights, and 1,536 of fp32 weights with 24 of buffers. The buffer of
  // 40 bytes is alone in its type and is sent without a copy. The gradients' buckets at the end
  // have no place for the frozen weight.
  CHECK(test::events_of(program, "load") ==
        "+256#0 +1536#1 +1920#2 +320#3 +12#4 +40#5 +12#6 "
        "+8#7 +8#8 +8#9 +8#10 +8#11 +8#12 +8#13 +8#14 +8#15 +64#16 -16 +96#17 -17 -8 -9 -10 -11 "
        "-12 -13 -14 -15 -7 +2496#18 +1560#19 -18 -19 +2240#20 +1536#21");
  CHECK(collectives_of(program, "load") ==
        "all_gather of 8: 1 calls, 64 bytes\nbroadcast of 8: 4 calls, 4192 bytes\n");
}

TEST_CASE("ddp: gradients move into their buckets, and with them into rebuilt ones") {
  const RankProgram program = train_toy({.view = true});
  CHECK(test::events_of(program, "load") ==
        "+256#0 +1536#1 +1920#2 +320#3 +12#4 +40#5 +12#6 +1536#7 +2496#8");
  CHECK(test::events_of(program, "first.forward") ==
        "+32#9 +24#10 -10 +64#11 +33554432#12 +128#13 -11 +192#14 +96#15 -14 +160#16 +16#17");
  CHECK(test::events_of(program, "first.backward") ==
        "+16#18 +320#19 +33554432#20 +160#21 -16 -19 +1920#22 +96#23 -21 -15 -22 +192#24 -23 "
        "+1536#25 +128#26 -24 -13 -25 +64#27 -26 +256#28 -27 -28 -9 -17 -18");
  CHECK(test::events_of(program, "second.forward") ==
        "+32#29 +20#30 +12#31 -31 -30 +2240#32 +1536#33 -7 +256#34 -8 +24#35 -35 +64#36 +128#37 "
        "-36 +192#38 +96#39 -38 +160#40 +16#41");
  CHECK(test::events_of(program, "second.backward") ==
        "+16#42 +320#43 +160#44 -40 -43 +1920#45 +96#46 -44 -39 -45 +192#47 -46 +1536#48 "
        "+128#49 -47 -37 -48 +64#50 -49 +256#51 -50 -51 -29 -41 -42");
  CHECK(test::events_of(program, "zero_grad") == "");
}

TEST_CASE("ddp: an all-reduce per bucket and backward, a broadcast per type of buffers") {
  const RankProgram program = train_toy({});
  CHECK(collectives_of(program, "first.forward") == "broadcast of 8: 2 calls, 64 bytes\n");
  CHECK(collectives_of(program, "first.backward") == "all_reduce of 8: 2 calls, 4032 bytes\n");
  // 64 bytes of buffers, 5 indices and 3 bucket sizes of 4 bytes.
  CHECK(collectives_of(program, "second.forward") == "broadcast of 8: 4 calls, 96 bytes\n");
  CHECK(collectives_of(program, "second.backward") == "all_reduce of 8: 3 calls, 4032 bytes\n");
  CHECK(collectives_of(program, "evaluation") == "broadcast of 8: 2 calls, 64 bytes\n");
}

TEST_CASE("ddp: frozen parameters are in no bucket") {
  const RankProgram program = train_toy({.view = false, .frozen_first = true});
  CHECK(collectives_of(program, "first.backward") ==
        "all_reduce of 8: 2 calls, " + std::to_string(4032 - 256) + " bytes\n");
}

TEST_CASE("assign_buckets: a bucket closes with the tensor that reaches the cap") {
  const std::vector<std::int64_t> bytes{6, 4, 12, 1, 1};
  const std::vector<DType> same(5, DType::kBf16);
  CHECK(assign_buckets(bytes, same, 10) == Assignment{{0, 1}, {2}, {3, 4}});
  CHECK(assign_buckets(bytes, same, INT64_MAX) == Assignment{{0, 1, 2, 3, 4}});
  CHECK(assign_buckets({}, {}, 10).empty());
}

TEST_CASE("assign_buckets: types do not mix, the last to appear is closed first") {
  const std::vector<std::int64_t> bytes{6, 4, 12, 1, 6};
  const std::vector<DType> dtypes{DType::kBf16, DType::kFp32, DType::kFp32, DType::kFp16,
                                  DType::kBf16};
  CHECK(assign_buckets(bytes, dtypes, 10) == Assignment{{1, 2}, {0, 4}, {3}});
  CHECK(assign_buckets(bytes, dtypes, 100) == Assignment{{3}, {1, 2}, {0, 4}});
}

}  // namespace headroom::ir::torch
