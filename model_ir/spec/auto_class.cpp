#include "model_ir/spec/auto_class.h"

#include <string>

#include "model_ir/spec/recording/recording.h"

namespace headroom::ir {

std::string_view auto_class(const ModelSpec& model) {
  switch (model.task) {
    case Task::kSequenceClassification:
      return "AutoModelForSequenceClassification";
    case Task::kTokenClassification:
      return "AutoModelForTokenClassification";
    case Task::kLanguage:
      break;
  }
  const std::string task = model.recording != nullptr ? model.recording->task : std::string();
  if (task == "image-text") {
    return "AutoModelForImageTextToText";
  }
  if (task == kSpeechTask) {
    return "AutoModelForSpeechSeq2Seq";
  }
  if (task == "masked-lm" || model.architecture == Architecture::kMaskedLm) {
    return "AutoModelForMaskedLM";
  }
  if (task == "seq2seq-lm" || model.architecture == Architecture::kEncoderDecoder) {
    return "AutoModelForSeq2SeqLM";
  }
  return "AutoModelForCausalLM";
}

}  // namespace headroom::ir
