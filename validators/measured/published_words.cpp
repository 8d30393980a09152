#include "validators/measured/published_words.h"

#include <array>

#include "runtimes/interface/runs/run_reader.h"

namespace headroom::check {
namespace {

using ir::find_word;
using ir::RowWord;

constexpr std::array<RowWord<std::string_view>, 41> kPublishedDevices = {
    {{"NVIDIA L40S", "l40s"},
     {"NVIDIA B200-SXM 180GB-class (8x NVLink)", "b200"},
     {"NVIDIA A100 80GB PCIe", "a100-80gb-pcie"},
     {"NVIDIA A100-SXM4-80GB (Selene)", "a100-80gb"},
     {"NVIDIA A100-SXM4-80GB (Selene, HDR IB)", "a100-80gb"},
     {"NVIDIA A100-SXM4-40GB (DGX-A100)", "a100-40gb"},
     {"NVIDIA H100 80GB", "h100-80gb"},
     {"NVIDIA H100 80GB HBM3", "h100-80gb"},
     {"NVIDIA H100 80GB SXM", "h100-80gb"},
     {"NVIDIA H100", "h100-80gb"},
     {"NVIDIA H100 ~95GB HBM2e lower TDP", "h100-96gb"},
     {"AMD MI300X", "mi300x"},
     {"NVIDIA A100 40GB", "a100-40gb"},
     {"NVIDIA B200", "b200"},
     {"NVIDIA B200 (power limited)", "b200"},
     {"NVIDIA GB200 (192GB)", "gb200"},
     {"NVIDIA B300", "b300"},
     {"NVIDIA GB300 (288GB)", "gb300"},
     {"H100-80GB (DGX-H100)", "h100-80gb"},
     {"B200 (DGX-B200)", "b200"},
     {"GB200 (DGX-GB200)", "gb200"},
     {"NVIDIA A100 (dgx_a100; A100-80GB assumed)", "a100-80gb"},
     {"NVIDIA H100 (dgx_h100; H100-80GB assumed)", "h100-80gb"},
     {"NVIDIA GB200 (dgx_gb200)", "gb200"},
     {"L40S-48GB", "l40s"},
     {"NVIDIA RTX 4090 24GB", "rtx-4090"},
     {"NVIDIA RTX A6000 48GB", "rtx-a6000"},
     {"NVIDIA A10G 24GB", "a10g"},
     {"NVIDIA A100-SXM4-40GB", "a100-40gb"},
     {"NVIDIA A100-SXM4-80GB", "a100-80gb"},
     {"NVIDIA A100 80GB", "a100-80gb"},
     {"NVIDIA A100 80GB (assumed)", "a100-80gb"},
     {"A100-80GB", "a100-80gb"},
     {"A100-SXM4-80GB", "a100-80gb"},
     {"NVIDIA H100-SXM5-80GB", "h100-80gb"},
     {"H100-80GB", "h100-80gb"},
     {"NVIDIA H100 96GB HBM2e 500W (Grand Teton, 2.4 TB/s)", "h100-96gb"},
     {"NVIDIA B200 (178.35 GiB)", "b200"},
     {"NVIDIA H200", "h200"},
     {"V100-SXM2-16GB", "v100-16gb"},
     {"NVIDIA V100-SXM2-32GB", "v100-32gb"}}};

constexpr std::array<RowWord<Metric>, 3> kPeaks = {{{"max_allocated", Metric::kPeakAllocated},
                                                    {"max_reserved", Metric::kPeakReserved},
                                                    {"max_active", Metric::kPeakActive}}};
// "nvidia-smi (upper bound)" and the like are left out: they are not the driver's peak of a run.
constexpr std::array<RowWord<Metric>, 3> kDriver = {
    {{"nvidia-smi", Metric::kPeakDriver},
     {"nvidia-smi (nvml used) after training, so reserved + context", Metric::kPeakDriver},
     {"driver", Metric::kPeakDriver}}};

constexpr std::array<RowWord<double>, 5> kUnits = {
    {{"bytes", 1},
     {"MiB", 1048576},
     {"MiB (printed MB, code divides by 1024**2)", 1048576},
     {"GiB", 1073741824},
     {"GB(1e9)", 1e9}}};

}  // namespace

std::optional<std::string_view> published_device(std::string_view gpu) {
  return find_word<std::string_view>(gpu, kPublishedDevices);
}

std::optional<Metric> published_metric(std::string_view words) {
  for (const RowWord<Metric>& peak : kPeaks) {
    if (ir::begins_with(words, peak.word)) {
      return peak.value;
    }
  }
  return find_word<Metric>(words, kDriver);
}

std::optional<double> published_unit(std::string_view words) {
  return find_word<double>(words, kUnits);
}

}  // namespace headroom::check
