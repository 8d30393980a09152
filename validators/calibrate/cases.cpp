#include "validators/calibrate/cases.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace headroom::calibrate {
namespace {

std::int64_t size_of(ir::DType dtype) {
  return ir::bits_of(dtype) / 8;
}

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

std::string_view word_of(ir::DType dtype) {
  return dtype == ir::DType::kBf16 ? "bf16" : dtype == ir::DType::kFp16 ? "fp16" : "fp32";
}

std::string_view word_of(ir::GemmLayout layout) {
  return layout == ir::GemmLayout::kTN ? "TN" : layout == ir::GemmLayout::kNN ? "NN" : "NT";
}

Case product(const GemmCase& gemm) {
  const ir::GemmShape& shape = gemm.shape;
  std::string name = "gemm ";
  name += gemm.math == HEADROOM_MATH_TF32 ? "tf32" : word_of(shape.dtype);
  name += " " + std::string(word_of(shape.layout)) + " " + std::to_string(shape.m) + "x" +
          std::to_string(shape.n) + "x" + std::to_string(shape.k);
  name += gemm.workspace ? "" : " without workspace";
  return {.name = std::move(name), .what = gemm};
}

/// Products of linear layers: hidden sizes and feed-forward sizes of models of 1 to 70 billion
/// parameters, and squares, which show what tiles and waves cost.
void add_products(std::vector<Case>& cases) {
  struct Linear {
    std::int64_t n;
    std::int64_t k;
  };
  constexpr std::array<Linear, 8> kLayers = {{{2048, 2048},
                                              {8192, 2048},
                                              {2048, 8192},
                                              {4096, 4096},
                                              {1024, 4096},
                                              {14336, 4096},
                                              {4096, 14336},
                                              {8192, 8192}}};
  for (const std::int64_t tokens : {512, 2048, 8192}) {
    for (const Linear& layer : kLayers) {
      cases.push_back(product({.shape = {.m = tokens, .n = layer.n, .k = layer.k}}));
      cases.push_back(product(
          {.shape = {.m = tokens, .n = layer.k, .k = layer.n, .layout = ir::GemmLayout::kNN}}));
      cases.push_back(product(
          {.shape = {.m = layer.n, .n = layer.k, .k = tokens, .layout = ir::GemmLayout::kNT}}));
    }
  }
  for (const std::int64_t side : {128, 256, 640, 1280, 3072}) {
    cases.push_back(product({.shape = {.m = side, .n = side, .k = side}}));
  }
  // Rows of the result that are no multiple of 16 bytes, and with an odd number of elements.
  for (const std::int64_t words : {50258, 50257}) {
    cases.push_back(product({.shape = {.m = 4096, .n = words, .k = 2048}}));
  }
  cases.push_back(product({.shape = {.m = 2048, .n = 4096, .k = 14336}, .workspace = false}));
  for (const std::int64_t side : {2048, 8192}) {
    cases.push_back(
        product({.shape = {.m = side, .n = side, .k = side, .dtype = ir::DType::kFp16}}));
    cases.push_back(product({.shape = {.m = side, .n = side, .k = side, .dtype = ir::DType::kFp32},
                             .math = HEADROOM_MATH_TF32}));
  }
  for (const std::int64_t side : {1024, 2048, 4096}) {
    cases.push_back(
        product({.shape = {.m = side, .n = side, .k = side, .dtype = ir::DType::kFp32}}));
  }
}

void add_attention(std::vector<Case>& cases) {
  struct Sizes {
    std::int64_t batch, heads, kv_heads, sequence, head_dim;
  };
  constexpr std::array<Sizes, 6> kSizes = {{{4, 32, 8, 1024, 64},
                                            {1, 32, 8, 4096, 64},
                                            {4, 32, 8, 1024, 128},
                                            {1, 32, 8, 4096, 128},
                                            {1, 16, 16, 8192, 128},
                                            {1, 4, 1, 1024, 256}}};
  for (const bool backward : {false, true}) {
    for (const Sizes& sizes : kSizes) {
      const ir::AttentionShape shape{.batch = sizes.batch,
                                     .heads = sizes.heads,
                                     .kv_heads = sizes.kv_heads,
                                     .queries = sizes.sequence,
                                     .keys = sizes.sequence,
                                     .head_dim = sizes.head_dim,
                                     .value_dim = sizes.head_dim,
                                     .backward = backward};
      cases.push_back(
          {.name = std::string("attention ") + (backward ? "backward" : "forward") + " b" +
                   std::to_string(sizes.batch) + " h" + std::to_string(sizes.heads) + " kv" +
                   std::to_string(sizes.kv_heads) + " s" + std::to_string(sizes.sequence) + " d" +
                   std::to_string(sizes.head_dim),
           .what = AttentionCase{shape}});
    }
  }
}

/// Columns of the rows that are normalised.
constexpr std::int64_t kNormColumns = 4096;

Case traffic(TrafficCall call, std::int64_t elements, std::string_view where) {
  constexpr std::array<std::string_view, 4> kNames = {"copy", "add", "cast", "norm"};
  constexpr std::array<std::int64_t, 4> kBytes = {4, 6, 6, 4};  // bf16; casts read fp32.
  const auto index = static_cast<std::size_t>(call);
  return {
      .name = std::string("memory ") + std::string(kNames[index]) + " " + std::to_string(elements) +
              std::string(where),
      .what = TrafficCase{.call = call, .elements = elements, .bytes = kBytes[index] * elements}};
}

void add_memory(std::vector<Case>& cases, Bytes cache) {
  constexpr std::int64_t kLarge = std::int64_t{128} << 20;
  cases.push_back({.name = "launch device", .what = LaunchCase{LaunchSide::kDevice}});
  cases.push_back({.name = "launch host", .what = LaunchCase{LaunchSide::kHost}});
  for (const TrafficCall call :
       {TrafficCall::kCopy, TrafficCall::kAdd, TrafficCall::kCast, TrafficCall::kNorm}) {
    cases.push_back(traffic(call, kLarge, ""));
  }
  constexpr std::int64_t kSix = 6;  // Bytes of an element of `add`.
  cases.push_back(traffic(TrafficCall::kAdd, cache.value() / 4 / kSix, " cached"));
}

void add_copies(std::vector<Case>& cases) {
  constexpr std::int64_t kSmall = 4096;
  constexpr std::int64_t kLarge = std::int64_t{256} << 20;
  for (const bool pinned : {true, false}) {
    for (const ir::CopyKind kind : {ir::CopyKind::kHostToDevice, ir::CopyKind::kDeviceToHost}) {
      for (const std::int64_t bytes : {kSmall, kLarge}) {
        cases.push_back(
            {.name = std::string("copy ") +
                     (kind == ir::CopyKind::kHostToDevice ? "to device " : "to host ") +
                     (pinned ? "pinned " : "pageable ") + std::to_string(bytes),
             .what = CopyCase{.shape = {.kind = kind, .bytes = bytes}, .pinned = pinned}});
      }
    }
  }
}

std::int64_t bytes_of(const GemmCase& gemm) {
  const ir::GemmShape& s = gemm.shape;
  const std::int64_t size = size_of(s.dtype);
  return aligned(s.m * s.k * size) + aligned(s.k * s.n * size) + aligned(s.m * s.n * size);
}

std::int64_t bytes_of(const AttentionCase& attention) {
  const ir::AttentionShape& s = attention.shape;
  const std::int64_t size = size_of(s.dtype);
  const std::int64_t queries = s.batch * s.queries * s.heads * s.head_dim;
  const std::int64_t keys = s.batch * s.keys * s.kv_heads * s.head_dim;
  const std::int64_t statistics = aligned(4 * s.batch * s.heads * s.queries);
  const std::int64_t forward = 2 * aligned(size * queries) + 2 * aligned(size * keys) + statistics;
  return s.backward ? 2 * forward + aligned(4 * queries) : forward;
}

std::int64_t bytes_of(const TrafficCase& traffic) {
  // The tensors and, for norms, the weight and the statistics of the rows.
  return aligned(traffic.bytes) + 3 * kTensorAlignment +
         aligned(4 * (kNormColumns + traffic.elements / kNormColumns));
}

std::int64_t bytes_of(const LaunchCase& /*launch*/) {
  return kTensorAlignment;
}

std::int64_t bytes_of(const CopyCase& copy) {
  return aligned(copy.shape.bytes);
}

}  // namespace

std::vector<Case> all_cases(Bytes cache) {
  std::vector<Case> cases;
  add_memory(cases, cache);
  add_copies(cases);
  add_products(cases);
  add_attention(cases);
  return cases;
}

Bytes memory_of(const Case& one) {
  return Bytes{std::visit([](const auto& what) { return bytes_of(what); }, one.what)};
}

Bytes memory_of(const std::vector<Case>& cases) {
  Bytes most;
  for (const Case& one : cases) {
    most = std::max(most, memory_of(one));
  }
  return most;
}

}  // namespace headroom::calibrate
