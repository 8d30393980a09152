#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/functions.h"

// Sizes were recorded with PyTorch 2.11.0 on compute capability 9.0 with 132 multiprocessors.
namespace headroom::ir::torch {
namespace {

struct Case {
  DType dtype = DType::kBf16;
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t sequence = 1;
  std::int64_t dim = 64;
  bool masked = false;
  bool cudnn = false;
};

struct Sizes {
  std::vector<std::int64_t> forward;
  std::vector<std::int64_t> backward;
  std::int64_t after = 0;  ///< Bytes of the forward that are alive when it ends.
};

/// What sdpa allocates, and its backward.
Sizes allocations_of(const Case& what) {
  Eager eager{DeviceTraits{}};
  const auto heads = [&](std::int64_t count) {
    Tensor tensor = eager.parameter({what.batch, count, what.sequence, what.dim}, what.dtype, true);
    tensor->layout = Layout::kSwapped;
    return tensor;
  };
  const Tensor q = heads(what.heads);
  const Tensor k = heads(what.kv_heads);
  const Tensor v = heads(what.kv_heads);
  SdpaOptions options;
  options.cudnn = what.cudnn;
  if (what.masked) {
    options.causal = false;
    options.mask = eager.empty({1, 1, what.sequence, what.sequence}, DType::kBool);
  }
  const std::size_t start = eager.program().events.size();
  const Tensor output = sdpa(eager, q, k, v, options);
  const std::size_t middle = eager.program().events.size();
  const Tensor seed = eager.empty(output.shape(), output.dtype());
  seed->layout = Layout::kSwapped;
  const std::size_t backward = eager.program().events.size();
  eager.backward(output, seed);
  Sizes sizes;
  const std::vector<Event>& events = eager.program().events;
  for (std::size_t i = start; i < events.size(); ++i) {
    if (events[i].kind != EventKind::kAllocate || (i >= middle && i < backward)) {
      continue;
    }
    (i < middle ? sizes.forward : sizes.backward).push_back(events[i].bytes);
    bool alive = i < middle;
    for (std::size_t j = i; j < middle; ++j) {
      alive = alive && !(events[j].kind == EventKind::kFree && events[j].block == events[i].block);
    }
    sizes.after += alive ? events[i].bytes : 0;
  }
  return sizes;
}

std::vector<std::int64_t> list(std::initializer_list<std::int64_t> values) {
  return values;
}

}  // namespace

TEST_CASE("sdpa: the backward workspace of memory-efficient attention") {
  struct Fact {
    DType dtype;
    std::int64_t batch, heads, sequence, dim, bytes;
  };
  const Fact facts[] = {
      {DType::kBf16, 1, 2, 1000, 64, 524'800},       {DType::kBf16, 2, 8, 200, 32, 1'049'600},
      {DType::kBf16, 2, 8, 1000, 80, 8'390'656},     {DType::kBf16, 1, 2, 1024, 160, 5'767'936},
      {DType::kBf16, 2, 8, 1000, 160, 37'754'880},   {DType::kBf16, 4, 64, 200, 160, 83'910'656},
      {DType::kBf16, 4, 64, 1024, 256, 302'120'960}, {DType::kFp32, 1, 2, 200, 96, 262'272},
      {DType::kFp32, 2, 8, 1024, 64, 4'198'400},     {DType::kFp32, 2, 8, 200, 160, 3'147'264},
      {DType::kFp32, 2, 8, 1024, 256, 16'785'408}};
  for (const Fact& fact : facts) {
    CAPTURE(fact.bytes);
    const Sizes sizes = allocations_of({.dtype = fact.dtype,
                                        .batch = fact.batch,
                                        .heads = fact.heads,
                                        .kv_heads = fact.heads,
                                        .sequence = fact.sequence,
                                        .dim = fact.dim,
                                        .masked = true});
    REQUIRE_FALSE(sizes.backward.empty());
    CHECK(sizes.backward.back() == fact.bytes);
  }
}

TEST_CASE(
    "sdpa: a boolean mask becomes additive for the whole batch, with rows of a multiple of 8") {
  const Sizes even =
      allocations_of({.batch = 2, .heads = 8, .kv_heads = 8, .sequence = 1000, .masked = true});
  const std::int64_t output = 2 * 8 * 1000 * 64 * 2;
  CHECK(even.forward == list({2, 2, 4'000'000, output, 65'536}));
  const Sizes odd =
      allocations_of({.batch = 1, .heads = 8, .kv_heads = 8, .sequence = 1001, .masked = true});
  CHECK(odd.forward == list({2, 2, 2'004'002, 2'018'016, 8 * 1001 * 64 * 2, 32'768}));
  // Mask, output and log-sum-exp stay for backward.
  CHECK(odd.after == 2'018'016 + 8 * 1001 * 64 * 2 + 32'768);
}

TEST_CASE("sdpa: flash attention splits the keys where rows are too few for the device") {
  const std::int64_t output = 2 * 4 * 1024 * 256 * 2;
  const Sizes few =
      allocations_of({.batch = 2, .heads = 4, .kv_heads = 1, .sequence = 1024, .dim = 256});
  CHECK(few.forward == list({output, 32'768, 65'536, 16'777'216, 16, 8}));
  CHECK(few.after == output + 32'768 + 16 + 8);
  const Sizes many =
      allocations_of({.batch = 4, .heads = 4, .kv_heads = 1, .sequence = 1024, .dim = 256});
  CHECK(many.forward == list({2 * output, 65'536, 16, 8}));
}

TEST_CASE("sdpa: flash attention pads heads to a multiple of 8 and cuts its output") {
  const Sizes sizes = allocations_of({.heads = 10, .kv_heads = 2, .sequence = 512, .dim = 100});
  const std::int64_t query = 10 * 512 * 104 * 2;
  const std::int64_t key = 2 * 512 * 104 * 2;
  const std::int64_t sums = 10 * 512 * 4;
  // Padded queries, keys and values, the output; two parts of 128 columns.
  CHECK(sizes.forward ==
        list({query, key, key, query, sums, 2 * sums, 2 * 10 * 512 * 128 * 4, 16, 8}));
  CHECK(sizes.after == 2 * query + 2 * key + sums + 16 + 8);
  // The cut's gradient, copies of it and of the output by rows, the three gradients, row sums, the
  // query's in fp32, keys and values of all heads; then values, keys and queries without padding.
  CHECK(sizes.backward ==
        list({query, query, query, query, key, key, sums, 10 * 512 * 128 * 4, query, query,
              2 * 512 * 100 * 2, 2 * 512 * 100 * 2, 10 * 512 * 100 * 2}));
}

TEST_CASE("sdpa: heads of no multiple of 16 bytes leave memory-efficient attention out") {
  const auto scores = [](const Case& what) {  // The composite implementation makes them.
    const Sizes sizes = allocations_of(what);
    const std::int64_t bytes = 2 * 512 * 512 * 4;
    return std::count(sizes.forward.begin(), sizes.forward.end(), bytes) > 0;
  };
  Case what{.heads = 2, .kv_heads = 2, .sequence = 512, .dim = 100, .masked = true};
  CHECK(scores(what));  // 200 bytes
  what.dim = 104;
  CHECK_FALSE(scores(what));
  what = {.dtype = DType::kFp32, .heads = 2, .kv_heads = 2, .sequence = 512, .dim = 90};
  CHECK(scores(what));  // 360 bytes
  what.dim = 100;
  CHECK_FALSE(scores(what));
}

TEST_CASE("sdpa: outside autograd memory-efficient attention makes no log-sum-exp") {
  Eager eager{DeviceTraits{}};
  const GradMode off(eager, false);
  const Tensor q = eager.parameter({1, 2, 64, 64}, DType::kFp32, true);
  const std::size_t start = eager.program().events.size();
  const Tensor output = sdpa(eager, q, q, q, {});
  CHECK(eager.program().events.size() == start + 1);
}

TEST_CASE("repeat_heads: one head is seen several times, more are copied") {
  Eager eager{DeviceTraits{}};
  const Tensor one = eager.parameter({2, 1, 16, 64}, DType::kBf16, true);
  const Tensor two = eager.parameter({2, 2, 16, 64}, DType::kBf16, true);
  const std::size_t start = eager.program().events.size();
  const Tensor seen = repeat_heads(eager, one, 4);
  CHECK(eager.program().events.size() == start);
  CHECK(seen.shape() == Shape{2, 4, 16, 64});
  const Tensor copied = repeat_heads(eager, two, 4);
  REQUIRE(eager.program().events.size() == start + 1);
  CHECK(eager.program().events.back().bytes == 2 * 8 * 16 * 64 * 2);
}

TEST_CASE("sdpa: cuDNN's kernel keeps random state and row sums, and works in fp32") {
  // Recorded on an H100 with cuDNN 9.19: [2, 32, 1024, 64]; with 8 heads of keys, [1, 32, 1000,
  // 128].
  const Sizes plain =
      allocations_of({.batch = 2, .heads = 32, .kv_heads = 32, .sequence = 1024, .cudnn = true});
  CHECK(plain.forward == std::vector<std::int64_t>{8, 8, 8388608, 262144, 256});
  CHECK(plain.backward == std::vector<std::int64_t>{8388608, 8388608, 8388608, 17039616});
  const Sizes shared = allocations_of(
      {.batch = 1, .heads = 32, .kv_heads = 8, .sequence = 1000, .dim = 128, .cudnn = true});
  CHECK(shared.forward == std::vector<std::int64_t>{8, 8, 8192000, 128000, 256});
  CHECK(shared.backward == std::vector<std::int64_t>{8192000, 2048000, 2048000, 32896256});
}

TEST_CASE("sdpa: cuDNN takes a mask as numbers of the queries' type, of every sequence") {
  const Sizes masked = allocations_of(
      {.batch = 2, .heads = 16, .kv_heads = 16, .sequence = 512, .masked = true, .cudnn = true});
  CHECK(masked.forward == std::vector<std::int64_t>{2, 2, 1048576, 8, 8, 2097152, 65536, 256});
  CHECK(masked.backward == std::vector<std::int64_t>{2097152, 2097152, 2097152, 4260096});
}

TEST_CASE("sdpa: heads that are no multiple of 8, and fp32, are not cuDNN's") {
  const Sizes odd =
      allocations_of({.heads = 5, .kv_heads = 5, .sequence = 77, .dim = 100, .cudnn = true});
  CHECK(odd.forward ==
        allocations_of({.heads = 5, .kv_heads = 5, .sequence = 77, .dim = 100}).forward);
  const Case wide{.dtype = DType::kFp32, .heads = 4, .kv_heads = 4, .sequence = 64, .cudnn = true};
  CHECK(allocations_of(wide).forward ==
        allocations_of({.dtype = DType::kFp32, .heads = 4, .kv_heads = 4, .sequence = 64}).forward);
}

}  // namespace headroom::ir::torch
