#include "runtimes/torch/record.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "model_ir/base/check.h"

namespace headroom::ir::torch {

Node* accumulator_of(Eager& eager, TensorImpl* leaf) {
  if (leaf->accumulator == nullptr) {
    Node* const node = make_node();
    node->sequence = std::numeric_limits<std::uint64_t>::max();
    node->leaf = leaf;
    leaf->accumulator = node;
    if (leaf->leaf_parameter) {
      add_use(leaf->accumulator);  // Parameters outlive every graph, so it is made once.
    } else {
      leaf->accumulator->leaf_owner = Tensor(eager, leaf);  // The node keeps its variable alive.
    }
  }
  return leaf->accumulator;
}

Record::Record(Eager& eager, std::initializer_list<const Tensor*> inputs) : eager_(eager) {
  if (begin(std::any_of(inputs.begin(), inputs.end(),
                        [](const Tensor* input) { return input->requires_grad(); }))) {
    node_->next.reserve(inputs.size());
    for (const Tensor* input : inputs) {
      add_edge(*input);
    }
  }
}

Record::Record(Eager& eager, std::span<const Tensor> inputs) : eager_(eager) {
  if (begin(std::any_of(inputs.begin(), inputs.end(),
                        [](const Tensor& input) { return input.requires_grad(); }))) {
    for (const Tensor& input : inputs) {
      add_edge(input);
    }
  }
}

bool Record::begin(bool wanted) {
  if (!wanted || !eager_.grad_enabled()) {
    return false;
  }
  node_ = make_node();  // References are counted by hand, as its edges': add_use, drop_use.
  add_use(node_);
  node_->sequence = eager_.next_sequence();
  node_->layer = eager_.layer();
  node_->site_operation = eager_.operation();
  node_->distributed = eager_.distributed();
  node_->unfused = eager_.unfused();
  node_->stream = eager_.stream();
  return true;
}

void Record::add_edge(const Tensor& input) {
  Edge edge;
  if (input.requires_grad()) {
    TensorImpl* const impl = input.impl();
    edge.node = impl->grad_fn != nullptr ? impl->grad_fn : accumulator_of(eager_, impl);
    edge.input_index = impl->grad_fn != nullptr ? impl->output_index : 0;
    add_use(edge.node);
  }
  node_->next.push_back(edge);
  node_->input_shapes.push_back(input.defined() ? input.shape() : Shape{});
  node_->input_dtypes.push_back(input.defined() ? input.dtype() : DType::kFp32);
}

Record::~Record() {
  drop_use(node_);
}

void Record::save(const Tensor& tensor) {
  if (active() && tensor.defined()) {
    node_->saved.push_back(eager_.save(tensor));
  }
}

void Record::save_output(const Tensor& output) {
  if (active() && output.defined()) {
    Tensor saved = eager_.alias(output, output.shape(), false);
    saved->layout = output->layout;
    save(saved);
  }
}

void Record::finish(Tensor& output, Node::Apply apply) {
  Tensor* const one = &output;
  finish(std::span<Tensor* const>(&one, 1), std::move(apply));
}

void Record::finish(std::span<Tensor* const> outputs, Node::Apply apply) {
  if (!active()) {
    return;
  }
  node_->apply = std::move(apply);
  node_->inputs = static_cast<int>(outputs.size());
  int index = 0;
  for (Tensor* output : outputs) {
    TensorImpl* const impl = output->impl();
    if (impl != nullptr) {
      HEADROOM_ASSERT(impl->grad_fn == nullptr);
      impl->requires_grad = true;
      impl->grad_fn = node_;
      impl->output_index = index;
      add_use(node_);
    }
    ++index;
  }
}

}  // namespace headroom::ir::torch
