#include "model_ir/graph/param_writer.h"

#include <optional>
#include <utility>

#include "model_ir/spec/task.h"

namespace headroom::ir {

ParameterWriter::ParameterWriter(const ModelSpec& model, ExpertWeights experts)
    : model_(model), experts_(experts) {
  constexpr std::size_t kPerLayer = 16;  // Most families have 9 to 16.
  const std::int64_t encoder = model.encoder ? model.encoder->layers : 0;
  table_.reserve(kPerLayer * (model.layers.size() + static_cast<std::size_t>(encoder) + 1));
}

void ParameterWriter::enter_layer(std::string_view stack, LayerPlace place) {
  prefix_.assign(stack);
  prefix_ += std::to_string(place.in_stack);
  prefix_ += '.';
  layer_ = place.in_model;
}

void ParameterWriter::leave_layer() {
  prefix_.clear();
  layer_ = -1;
  module_ = Module::kNone;
}

std::string ParameterWriter::full_name(std::string_view name, std::string_view ending) const {
  std::string full;
  full.reserve(prefix_.size() + name.size() + ending.size());
  full += prefix_;
  full += name;
  full += ending;
  return full;
}

void ParameterWriter::append(ModelParameter parameter) {
  parameter.info.kind = ValueKind::kParameter;
  parameter.info.layer = layer_;
  parameter.module = module_;
  table_.push_back(std::move(parameter));
}

void ParameterWriter::bare(OpRole role, std::string_view name, std::vector<std::int64_t> dims,
                           ParameterPart part) {
  append(
      {.info = {.name = full_name(name, ""), .dims = std::move(dims)}, .role = role, .part = part});
}

void ParameterWriter::weight(OpRole role, std::string_view name, std::vector<std::int64_t> dims) {
  append({.info = {.name = full_name(name, ".weight"), .dims = std::move(dims)}, .role = role});
}

void ParameterWriter::embedding(OpRole role, std::string_view name, std::int64_t rows,
                                std::int64_t width) {
  weight(role, name, {rows, width});
}

void ParameterWriter::linear(OpRole role, std::string_view name, LinearSize size) {
  weight(role, name, {size.out, size.in});
  if (size.bias) {
    append({.info = {.name = full_name(name, ".bias"), .dims = {size.out}},
            .role = role,
            .part = ParameterPart::kBias});
  }
}

bool ParameterWriter::classifier() {
  const std::optional<ClassifierForm> form = classifier_form(model_.family, model_.task);
  if (!form) {
    return false;
  }
  set_module(Module::kHead);
  if (form->pools) {
    linear(OpRole::kPooler, "bert.pooler.dense", {model_.hidden, model_.hidden, true});
  }
  linear(OpRole::kHead, form->module, {model_.embedding_dim, model_.labels, form->bias});
  return true;
}

void ParameterWriter::conv1d(OpRole role, std::string_view name, LinearSize size) {
  weight(role, name, {size.in, size.out});
  append({.info = {.name = full_name(name, ".bias"), .dims = {size.out}},
          .role = role,
          .part = ParameterPart::kBias});
}

void ParameterWriter::norm(OpRole role, std::string_view name, std::int64_t width) {
  weight(role, name, {width});
  if (model_.norm == NormKind::kLayer) {
    append({.info = {.name = full_name(name, ".bias"), .dims = {width}},
            .role = role,
            .part = ParameterPart::kBias});
  }
}

}  // namespace headroom::ir
