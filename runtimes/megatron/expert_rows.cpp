#include "runtimes/megatron/expert_rows.h"

#include "model_ir/base/check.h"
#include "runtimes/megatron/plan.h"

namespace headroom::ir::megatron {

std::vector<std::int64_t> expert_rows(std::int64_t rows, std::size_t count, std::int64_t unit) {
  HEADROOM_ASSERT(rows % unit == 0);
  const auto experts = static_cast<std::int64_t>(count);
  const std::int64_t share = rows / unit / experts * unit;
  std::vector<std::int64_t> shares(count, share);
  shares.back() = rows - share * (experts - 1);
  return shares;
}

std::int64_t padded_unit(const Runner& run) {
  return run.context.megatron.fp8 == MegatronFp8::kMxfp8 ? 32 : 16;
}

std::int64_t padded_rows(const Runner& run, std::int64_t rows, std::size_t count) {
  std::int64_t padded = 0;
  for (const std::int64_t share : expert_rows(rows, count)) {
    padded += align_up(share, padded_unit(run));
  }
  return padded;
}

void run_per_expert(torch::Eager& eager, GemmShape all) {
  std::int64_t GemmShape::*const rows =
      all.layout == GemmLayout::kNT ? &GemmShape::k : &GemmShape::m;
  const std::int64_t total = all.*rows;
  all.*rows = total / all.count;
  if (all.*rows > 0) {
    eager.run(all);
  }
  all.*rows = total - all.*rows * all.count;
  if (all.*rows > 0) {
    all.count = 1;
    eager.run(all);
  }
}

}  // namespace headroom::ir::megatron
