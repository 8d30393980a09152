#include "costmodel/hardware/fit/samples.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace headroom::cost::fit {
namespace {

constexpr double kMicro = 1e-6;
constexpr Seconds kShortestSpan{120e-6};

/// A quarter of a device's samples evaluates the fit. They are scattered, because neighbours are
/// alike.
template <typename Shape>
void add(SamplesOf<Shape>& all, const std::string& device, Sample<Shape> sample) {
  Samples<Shape>& samples = all[device];
  sample.held_out = (samples.size() * 2'654'435'761U >> 16) % 4 == 3;
  samples.push_back(sample);
}

/// Weight of a sample. A training step lasts seconds and runs at the clocks of the power limit; a
/// short benchmark runs at higher clocks. Long products therefore get more weight.
double weight_of(Seconds measured) {
  return 0.05 + std::min(measured / Seconds{1e-3}, 1.0);
}

ir::GemmLayout layout_in(const std::string& text) {
  if (text == "NN") {
    return ir::GemmLayout::kNN;
  }
  return text == "NT" ? ir::GemmLayout::kNT : ir::GemmLayout::kTN;
}

/// Peaks in FLOP/s that the shares in training_*.csv refer to.
double assumed_peak(const std::string& device) {
  if (device.starts_with("h100")) {
    return 989e12;
  }
  if (device.starts_with("gb")) {
    return 2500e12;
  }
  return device == "b200" ? 2250e12 : 312e12;
}

ir::CollectiveKind kind_in(const std::string& operation) {
  if (operation == "all_reduce") {
    return ir::CollectiveKind::kAllReduce;
  }
  if (operation == "all_gather") {
    return ir::CollectiveKind::kAllGather;
  }
  return operation == "alltoall" ? ir::CollectiveKind::kAllToAll
                                 : ir::CollectiveKind::kReduceScatter;
}

}  // namespace

Result<SamplesOf<ir::GemmShape>> read_gemms(const std::string& folder) {
  const Result<Table> table = read_table(folder + "/gemm.csv");
  if (!table) {
    return table.error();
  }
  SamplesOf<ir::GemmShape> all;
  for (std::size_t row = 0; row < table->rows.size(); ++row) {
    const std::string& dtype = table->text(row, "dtype");
    if (dtype == "nvfp4") {
      continue;  // The graph has no such element type.
    }
    for (std::size_t i = table->column("k") + 1; i < table->columns.size(); ++i) {
      const std::string& cell = table->rows[row][i];
      if (cell.empty()) {
        continue;
      }
      const std::int64_t m = std::llround(number_in(table->columns[i]));
      const ir::GemmShape shape{.m = m,
                                .n = table->integer(row, "n"),
                                .k = table->integer(row, "k"),
                                .dtype = dtype == "fp8" ? ir::DType::kFp8 : ir::DType::kBf16};
      const std::string& device = table->text(row, "device");
      // In these measurements the node fell to half its rate at the largest products; other nodes
      // of this kind do not (stas00/ml-engineering: 1822 TFLOP/s).
      if (device == "gb200" && m > 4096) {
        continue;
      }
      const Seconds measured{number_in(cell) * kMicro};
      add(all, device + (dtype == "fp8" ? " fp8" : ""),
          {.shape = shape, .measured = measured, .weight = weight_of(measured)});
    }
  }
  return all;
}

Result<SamplesOf<ir::AttentionShape>> read_attention(const std::string& folder) {
  const Result<Table> table = read_table(folder + "/attention.csv");
  if (!table) {
    return table.error();
  }
  SamplesOf<ir::AttentionShape> all;
  for (std::size_t row = 0; row < table->rows.size(); ++row) {
    if (table->text(row, "phase") != "context") {
      continue;  // One query at a time uses another kernel.
    }
    ir::AttentionShape shape{.batch = table->integer(row, "batch"),
                             .heads = table->integer(row, "heads"),
                             .kv_heads = table->integer(row, "kv_heads"),
                             .queries = table->integer(row, "queries"),
                             .keys = table->integer(row, "keys"),
                             .head_dim = table->integer(row, "head_dim"),
                             .kernel = ir::AttentionKernel::kNative};
    shape.value_dim = shape.head_dim;
    if (shape.kv_heads == shape.heads) {
      continue;  // Paged keys of many heads occur only in serving and are a fifth slower.
    }
    for (std::size_t i = table->column("head_dim") + 1; i < table->columns.size(); ++i) {
      const std::string& cell = table->rows[row][i];
      if (!cell.empty()) {
        add(all, table->columns[i],
            {.shape = shape, .measured = Seconds{number_in(cell) * kMicro}});
      }
    }
  }
  return all;
}

Result<SamplesOf<ir::CollectiveShape>> read_collectives(const std::string& folder) {
  const Result<Table> table = read_table(folder + "/collectives.csv");
  if (!table) {
    return table.error();
  }
  SamplesOf<ir::CollectiveShape> all;
  for (std::size_t row = 0; row < table->rows.size(); ++row) {
    for (std::size_t i = table->column("devices") + 1; i < table->columns.size(); ++i) {
      const ir::CollectiveShape shape{.kind = kind_in(table->text(row, "operation")),
                                      .bytes = std::llround(number_in(table->columns[i])),
                                      .group = {.size = table->integer(row, "devices")}};
      add(all, table->text(row, "device"),
          {.shape = shape, .measured = Seconds{number_in(table->rows[row][i]) * kMicro}});
    }
  }
  return all;
}

Result<SamplesOf<ir::GemmShape>> read_training_gemms(const std::string& folder) {
  const Result<Table> table = read_table(folder + "/training_gemm.csv");
  if (!table) {
    return table.error();
  }
  SamplesOf<ir::GemmShape> all;
  for (std::size_t row = 0; row < table->rows.size(); ++row) {
    const std::string& device = table->text(row, "device");
    const ir::GemmShape shape{.m = table->integer(row, "m"),
                              .n = table->integer(row, "n"),
                              .k = table->integer(row, "k"),
                              .count = table->integer(row, "count"),
                              .layout = layout_in(table->text(row, "layout")),
                              .batch = table->integer(row, "grouped") != 0
                                           ? ir::GemmBatch::kSeries
                                           : ir::GemmBatch::kStrided,
                              .accumulate = table->integer(row, "accumulate") != 0};
    if (shape.accumulate && table->text(row, "result") == "bf16") {
      continue;  // Frameworks accumulate weight gradients in fp32.
    }
    const double flops = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                         static_cast<double>(shape.k) * static_cast<double>(shape.count);
    const Seconds measured{flops / (table->number(row, "share_of_peak") * assumed_peak(device))};
    add(all, device + (shape.batch == ir::GemmBatch::kSeries ? " series" : ""),
        {.shape = shape, .measured = measured, .weight = weight_of(measured)});
  }
  return all;
}

Result<SamplesOf<ir::AttentionShape>> read_training_attention(const std::string& folder) {
  const Result<Table> table = read_table(folder + "/training_attention.csv");
  if (!table) {
    return table.error();
  }
  SamplesOf<ir::AttentionShape> all;
  for (std::size_t row = 0; row < table->rows.size(); ++row) {
    const std::string& device = table->text(row, "device");
    const ir::AttentionShape shape{.batch = table->integer(row, "batch"),
                                   .heads = table->integer(row, "heads"),
                                   .kv_heads = table->integer(row, "kv_heads"),
                                   .queries = table->integer(row, "tokens"),
                                   .keys = table->integer(row, "tokens"),
                                   .head_dim = table->integer(row, "head_dim"),
                                   .value_dim = table->integer(row, "value_dim"),
                                   .backward = table->text(row, "phase") == "backward",
                                   .kernel = ir::AttentionKernel::kNative};
    // The shares count every pair of a query and a key; a causal mask skips half of them.
    const double flops = (shape.backward ? 5.0 : 2.0) * static_cast<double>(shape.batch) *
                         static_cast<double>(shape.heads) * static_cast<double>(shape.queries) *
                         static_cast<double>(shape.keys) *
                         static_cast<double>(shape.head_dim + shape.value_dim);
    const Seconds measured{flops / (table->number(row, "share_of_peak") * assumed_peak(device))};
    // The measured spans run from the first kernel to the last. In the shortest, the host's pace
    // shows.
    if (measured > kShortestSpan) {
      add(all, device, {.shape = shape, .measured = measured});
    }
  }
  return all;
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const double last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::lround(share * last))];
}

std::string table_row(const std::string& label, const Residuals& residuals) {
  char text[160];
  std::snprintf(text, sizeof text, "| %s | %zu | %.1f %% | %.1f %% | %zu | %.1f %% | %.1f %% |\n",
                label.c_str(), residuals.fitted.size(), 100 * quantile(residuals.fitted, 0.5),
                100 * quantile(residuals.fitted, 0.9), residuals.held_out.size(),
                100 * quantile(residuals.held_out, 0.5), 100 * quantile(residuals.held_out, 0.9));
  return text;
}

}  // namespace headroom::cost::fit
