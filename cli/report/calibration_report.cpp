#include <algorithm>
#include <utility>

#include "cli/report/calibration_answer.h"
#include "cli/scalars.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cli {
namespace {

using ir::JsonFields;
using ir::JsonValue;

/// A measured figure, and what the catalogue has in its place.
struct Figure {
  std::string_view key;    ///< The key in the JSON document, with its unit.
  std::string_view words;  ///< The text that people read.
  double measured;
  double before;  ///< 0: the catalogue has no such figure.
  double unit;
  std::string_view unit_name;
};

std::vector<Figure> figures_of(const CalibrationAnswer& answer) {
  const cost::DevicePerformance& now = answer.figures.performance;
  const cost::DevicePerformance& was = answer.gpu.performance;
  constexpr double kTera = 1e12;
  constexpr double kGiga = 1e9;
  constexpr double kMicro = 1e-6;
  const auto flops = [](std::string_view key, std::string_view words, FlopsPerSecond a,
                        FlopsPerSecond b) {
    return Figure{key, words, a.value(), b.value(), kTera, "TFLOP/s"};
  };
  const auto bytes = [](std::string_view key, std::string_view words, BytesPerSecond a,
                        BytesPerSecond b) {
    return Figure{key, words, a.value(), b.value(), kGiga, "GB/s"};
  };
  const auto seconds = [](std::string_view key, std::string_view words, Seconds a, Seconds b) {
    return Figure{key, words, a.value(), b.value(), kMicro, "us"};
  };
  const cost::AttentionRates& own = now.attention.executor;
  const cost::AttentionRates& theirs = was.attention.executor;
  return {flops("half_flops_per_second", "products, 16 bits", now.gemm.half, was.gemm.half),
          flops("fp32_flops_per_second", "products, fp32", now.gemm.fp32, was.gemm.fp32),
          flops("tf32_flops_per_second", "products, TF32", answer.figures.tf32, {}),
          flops("attention_forward_flops_per_second", "executor's attention, forward",
                own.forward_128, theirs.forward_128),
          flops("attention_backward_flops_per_second", "executor's attention, backward",
                own.backward_128, theirs.backward_128),
          bytes("memory_bytes_per_second", "memory", now.memory.rate, was.memory.rate),
          bytes("cached_bytes_per_second", "cache", now.memory.cached, was.memory.cached),
          bytes("to_device_bytes_per_second", "pinned copies to the device", now.host.to_device,
                was.host.to_device),
          bytes("to_host_bytes_per_second", "pinned copies to the host", now.host.to_host,
                was.host.to_host),
          bytes("pageable_to_device_bytes_per_second", "pageable copies to the device",
                answer.figures.pageable_to_device, {}),
          bytes("pageable_to_host_bytes_per_second", "pageable copies to the host",
                answer.figures.pageable_to_host, {}),
          seconds("kernel_floor_seconds", "from one short kernel to the next", now.memory.floor,
                  was.memory.floor),
          seconds("product_floor_seconds", "shortest product", now.gemm.floor, was.gemm.floor),
          seconds("driver_launch_seconds", "host time of a launch", now.launch.driver,
                  was.launch.driver),
          seconds("copy_latency_seconds", "shortest copy", now.host.latency, was.host.latency)};
}

std::string figure_text(double value, const Figure& figure) {
  return value == 0 ? "-" : three_digits(value / figure.unit) + " " + std::string(figure.unit_name);
}

}  // namespace

std::string calibration_text(const CalibrationAnswer& answer, const Terminal& terminal) {
  const calibrate::MeasuredDevice& device = answer.file.device;
  std::string text = device.product + ", " + device.libraries + "\n";
  text += "usable once the context is made: " + to_text(Bytes{device.usable_bytes}) + " of " +
          to_text(Bytes{device.total_bytes}) + "\n\n";
  constexpr std::size_t kName = 36;
  constexpr std::size_t kColumn = 16;
  text += pad_right("", kName) + pad_left("measured", kColumn) + pad_left("before", kColumn) + "\n";
  for (const Figure& figure : figures_of(answer)) {
    text += pad_right(figure.words, kName) +
            pad_left(figure_text(figure.measured, figure), kColumn) +
            pad_left(figure_text(figure.before, figure), kColumn) + "\n";
  }
  text +=
      "\n" +
      wrap("The time model is " + percent_text(answer.figures.median_error) +
               " off for products in 16 bits (median), " + percent_text(answer.figures.p90_error) +
               " at the 90th percentile. Products in fp16 take " +
               three_digits(answer.figures.fp16_time) +
               " times as long as in bf16; without a workspace, one takes " +
               three_digits(answer.figures.without_workspace) + " times as long.",
           terminal.width, 0) +
      "\n";
  for (const calibrate::Measurement* const one : answer.unsteady) {
    text += styled(terminal, Style::kWarning, "unsteady") + ": " + one->name + ", spread " +
            percent_text(calibrate::spread_of(one->seconds)) + "\n";
  }
  if (answer.written) {
    text += "wrote " + answer.output + "; next: headroom fit MODEL --gpu " + answer.output + "\n";
  }
  return text;
}

std::string calibration_json(const CalibrationAnswer& answer) {
  const calibrate::MeasuredDevice& device = answer.file.device;
  JsonFields document;
  document.add("schema_version", 1);
  document.add("answer", answer.written ? "written" : "refused");
  document.add("output", answer.written ? JsonValue{answer.output} : JsonValue{});
  document.add("measurements", answer.measurements);
  JsonFields gpu;
  gpu.add("name", answer.gpu.device.name);
  gpu.add("product", device.product);
  gpu.add("libraries", device.libraries);
  gpu.add("total_bytes", device.total_bytes);
  gpu.add("usable_bytes", device.usable_bytes);
  document.add("gpu", std::move(gpu));
  JsonValue::Array figures;
  for (const Figure& figure : figures_of(answer)) {
    JsonFields fields;
    fields.add("figure", figure.key);
    fields.add("measured", figure.measured);
    fields.add("before", figure.before == 0 ? JsonValue{} : JsonValue{figure.before});
    figures.push_back(std::move(fields).finish());
  }
  document.add("figures", JsonValue{std::move(figures)});
  JsonFields fit;
  fit.add("median_error", answer.figures.median_error);
  fit.add("p90_error", answer.figures.p90_error);
  fit.add("fp16_time", answer.figures.fp16_time);
  fit.add("time_without_workspace", answer.figures.without_workspace);
  document.add("products", std::move(fit));
  JsonValue::Array cases;
  for (const calibrate::Measurement& one : answer.file.measurements) {
    const double spread = calibrate::spread_of(one.seconds);
    JsonFields fields;
    fields.add("case", one.name);
    fields.add("median_seconds", calibrate::median_of(one.seconds));
    fields.add("spread", spread);
    fields.add("steady", spread <= calibrate::kWidestSpread);
    cases.push_back(std::move(fields).finish());
  }
  document.add("cases", JsonValue{std::move(cases)});
  document.add("notes", ir::json_texts(answer.notes));
  return to_pretty_json(std::move(document).finish()) + "\n";
}

}  // namespace headroom::cli
