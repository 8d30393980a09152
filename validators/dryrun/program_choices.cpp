#include "validators/dryrun/program_choices.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

#include "costmodel/hardware/catalogue.h"
#include "costmodel/outside_memory.h"
#include "runtimes/typed/allocator_options.h"
#include "validators/dryrun/recorded_replay.h"

namespace headroom::check {
namespace {

/// Values of max_split_size_mb that are tried: powers of two above 20, the least that PyTorch
/// accepts, and below the sizes of the largest tensors.
constexpr std::array<std::int64_t, 6> kSplitSizes = {32, 64, 128, 256, 512, 1'024};

std::vector<ir::AllocatorSettings> split_sizes(const ir::AllocatorSettings& base) {
  std::vector<ir::AllocatorSettings> tries;
  for (const std::int64_t megabytes : kSplitSizes) {
    tries.push_back(base);
    tries.back().max_split_size = Bytes{megabytes * kMiB};
  }
  return tries;
}

SettingsChoice judged_choice(const ProgramQuestion& question, const cost::StepEstimate& found,
                             const ir::AllocatorSettings& settings) {
  const cost::StepEstimate estimate = judge_program(question, settings);
  return {.conf = to_text(settings),
          .verdict = estimate.verdict,
          .peak_reserved = estimate.peak_reserved,
          .saved = found.peak_reserved - estimate.peak_reserved,
          .margin = estimate.margin,
          .retries = estimate.retries};
}

/// The key by which better choices come first: verdict, reserved bytes, length of the text.
auto order_of(const SettingsChoice& choice) {
  return std::tuple(choice.verdict, choice.peak_reserved, choice.conf.size(), choice.conf);
}

bool better(const SettingsChoice& left, const SettingsChoice& right) {
  return order_of(left) < order_of(right);
}

}  // namespace

std::vector<SettingsChoice> try_settings(const ProgramQuestion& question,
                                         const cost::StepEstimate& found) {
  std::vector<SettingsChoice> choices;
  const auto consider = [&](const std::vector<ir::AllocatorSettings>& tries) {
    std::optional<SettingsChoice> best;
    for (const ir::AllocatorSettings& settings : tries) {
      if (settings == question.settings) {
        continue;
      }
      SettingsChoice choice = judged_choice(question, found, settings);
      if (!best || better(choice, *best)) {
        best = std::move(choice);
      }
    }
    if (best && (best->saved != Bytes{0} || best->verdict != found.verdict)) {
      choices.push_back(std::move(*best));
    }
  };
  ir::AllocatorSettings expandable = question.settings;
  expandable.expandable_segments = true;
  consider({expandable});
  if (!question.settings.expandable_segments) {  // Their blocks are always split.
    consider(split_sizes(question.settings));
  }
  if (!(question.settings == standin_settings())) {
    consider({standin_settings()});
  }
  std::ranges::stable_sort(choices, better);
  return choices;
}

Result<std::vector<GpuChoice>> try_gpus(const ProgramQuestion& question,
                                        const std::string& config_dir) {
  const Result<std::vector<cost::DeviceSpec>> devices = cost::list_devices(config_dir);
  if (!devices) {
    return devices.error();
  }
  std::vector<GpuChoice> choices;
  for (const cost::DeviceSpec& device : *devices) {
    if (device.vendor != "nvidia" || device.name == question.device.name ||
        cost::total_of(outside_of(question.recorded, device)) >= device.total) {
      continue;
    }
    const cost::StepEstimate estimate = judge_program(question, device, device.total);
    choices.push_back({.name = device.name,
                       .total = device.total,
                       .verdict = estimate.verdict,
                       .margin = estimate.margin});
  }
  std::ranges::stable_sort(choices, [](const GpuChoice& left, const GpuChoice& right) {
    return std::tuple(left.total, left.name) < std::tuple(right.total, right.name);
  });
  return choices;
}

}  // namespace headroom::check
