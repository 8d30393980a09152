#include "gui/charts/part_style.h"

#include <QCoreApplication>

namespace headroom::gui {
namespace {

using cost::StepPart;
using ir::TensorRole;

TensorRole role_like(StepPart part) {
  switch (part) {
    case StepPart::kMatrix:
      return TensorRole::kParameter;
    case StepPart::kExperts:
      return TensorRole::kMasterParameter;
    case StepPart::kAttention:
      return TensorRole::kOptimizerState;
    case StepPart::kMemoryBound:
      return TensorRole::kGradient;
    case StepPart::kRecompute:
      return TensorRole::kTemporary;
    case StepPart::kOptimizer:
      return TensorRole::kCommunication;
    case StepPart::kHost:
    case StepPart::kBubble:
      return TensorRole::kWorkspace;
    case StepPart::kTensor:
    case StepPart::kContext:
      return TensorRole::kActivation;
    case StepPart::kExpert:
      return TensorRole::kInput;
    case StepPart::kData:
    case StepPart::kPipeline:
      return TensorRole::kLogits;
    case StepPart::kOffload:
      return TensorRole::kBuffer;
  }
  return TensorRole::kWorkspace;
}

}  // namespace

SeriesStyle part_style(const Theme& theme, StepPart part) {
  return theme.of(role_like(part));
}

QString part_name(StepPart part) {
  const std::string name(cost::describe(part));
  return QCoreApplication::translate("StepPart", name.c_str());
}

bool is_transfer_part(StepPart part) {
  switch (part) {
    case StepPart::kTensor:
    case StepPart::kContext:
    case StepPart::kExpert:
    case StepPart::kData:
    case StepPart::kPipeline:
    case StepPart::kOffload:
      return true;
    default:
      return false;
  }
}

SeriesStyle numbered_style(const Theme& theme, std::size_t number) {
  // Neighbours in this order differ in hue.
  constexpr std::array<TensorRole, 8> kOrder = {
      TensorRole::kParameter,      TensorRole::kActivation, TensorRole::kCommunication,
      TensorRole::kLogits,         TensorRole::kTemporary,  TensorRole::kGradient,
      TensorRole::kOptimizerState, TensorRole::kBuffer};
  return theme.of(kOrder.at(number % kOrder.size()));
}

}  // namespace headroom::gui
