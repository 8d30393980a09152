#include "model_ir/graph/dot.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom::ir {
namespace {

NodeId node(std::size_t index) {
  return NodeId{static_cast<std::uint32_t>(index)};
}

std::string shape_text(const TensorInfo& info) {
  if (info.dims.empty()) {
    return "scalar";
  }
  std::string text;
  for (const std::int64_t dim : info.dims) {
    text += (text.empty() ? "" : "x") + std::to_string(dim);
  }
  return text;
}

std::string graphviz_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    if (c == '\n') {
      result += "\\n";  // Graphviz's line break.
      continue;
    }
    result += c;
  }
  return result + "\"";
}

bool same_tensors(const Graph& graph, const std::vector<TensorId>& a,
                  const std::vector<TensorId>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](TensorId x, TensorId y) {
    return graph.tensor(x).dims == graph.tensor(y).dims;
  });
}

bool same_op(const Graph& graph, const Op& a, const Op& b) {
  return a.kind == b.kind && a.role == b.role && a.module == b.module && a.window == b.window &&
         same_tensors(graph, a.inputs, b.inputs) &&
         same_tensors(graph, a.parameters, b.parameters) &&
         same_tensors(graph, a.outputs, b.outputs);
}

std::size_t length(const LayerRange& range) {
  return index_of(range.last) - index_of(range.first);
}

bool same_layer(const Graph& graph, const LayerRange& a, const LayerRange& b) {
  if (length(a) != length(b)) {
    return false;
  }
  for (std::size_t i = 0; i <= length(a); ++i) {
    if (!same_op(graph, graph.op(node(index_of(a.first) + i)),
                 graph.op(node(index_of(b.first) + i)))) {
      return false;
    }
  }
  return true;
}

/// Consecutive layers that are drawn as one.
struct Run {
  LayerRange shown;
  LayerRange last;
};

std::vector<Run> find_runs(const Graph& graph, DotLayers layers) {
  std::vector<Run> runs;
  for (const LayerRange& range : graph.layers()) {
    if (layers == DotLayers::kDistinct && !runs.empty() &&
        same_layer(graph, runs.back().shown, range)) {
      runs.back().last = range;
    } else {
      runs.push_back({.shown = range, .last = range});
    }
  }
  return runs;
}

class DotWriter {
 public:
  DotWriter(const Graph& graph, const DotOptions& options)
      : graph_(graph), runs_(find_runs(graph, options.layers)), source_(graph.tensor_count()) {}

  std::string write() {
    text_ =
        "digraph model {\n  rankdir=TB;\n  node [shape=box, fontname=\"sans-serif\"];\n"
        "  edge [fontname=\"sans-serif\", fontsize=10];\n";
    std::size_t next = 0;
    for (const Run& run : runs_) {
      write_ops(next, index_of(run.shown.first));
      write_run(run);
      next = index_of(run.last.last) + 1;
    }
    write_ops(next, graph_.op_count());
    text_ += "}\n";
    return std::move(text_);
  }

 private:
  void write_run(const Run& run) {
    std::string label = "layer " + std::to_string(run.shown.layer);
    if (run.last.layer != run.shown.layer) {
      label = "layers " + std::to_string(run.shown.layer) + " to " +
              std::to_string(run.last.layer) + ", all alike";
    }
    open_cluster("cluster_layer_" + std::to_string(run.shown.layer), label);
    write_ops(index_of(run.shown.first), index_of(run.shown.last) + 1);
    close_cluster();
    source_[index_of(run.last.output)] = source_[index_of(run.shown.output)];
  }

  void write_ops(std::size_t first, std::size_t end) {
    Module open = Module::kNone;
    for (std::size_t i = first; i < end; ++i) {
      const Op& op = graph_.op(node(i));
      if (op.module != open) {
        if (open != Module::kNone) {
          close_cluster();
        }
        if (op.module != Module::kNone) {
          open_cluster("cluster_module_" + std::to_string(i), name_of(op.module));
        }
        open = op.module;
      }
      write_op(i, op);
    }
    if (open != Module::kNone) {
      close_cluster();
    }
  }

  void write_op(std::size_t index, const Op& op) {
    std::string label(name_of(op.kind));
    if (op.role != OpRole::kNone) {
      label += " (" + std::string(name_of(op.role)) + ")";
    }
    for (const TensorId parameter : op.parameters) {
      const TensorInfo& info = graph_.tensor(parameter);
      label += "\n" + info.name + " " + shape_text(info);
    }
    const std::string name = "op" + std::to_string(index);
    line(name + " [label=" + graphviz_string(label) + "];");
    for (const TensorId input : op.inputs) {
      const TensorInfo& info = graph_.tensor(input);
      edges_ += "  " + source_name(input) + " -> " + name +
                " [label=" + graphviz_string(info.name + " " + shape_text(info)) + "];\n";
    }
    for (const TensorId output : op.outputs) {
      source_[index_of(output)] = index;
    }
    if (depth_ == 0) {
      flush_edges();
    }
  }

  /// The box that produces a value; a point for values from outside the graph.
  std::string source_name(TensorId id) {
    if (source_[index_of(id)]) {
      return "op" + std::to_string(*source_[index_of(id)]);
    }
    std::string name = "in" + std::to_string(index_of(id));
    edges_ +=
        "  " + name + " [shape=point, xlabel=" + graphviz_string(graph_.tensor(id).name) + "];\n";
    return name;
  }

  void open_cluster(const std::string& name, std::string_view label) {
    line("subgraph " + name + " {");
    ++depth_;
    line("label=" + graphviz_string(label) + ";");
  }

  void close_cluster() {
    --depth_;
    line("}");
    if (depth_ == 0) {
      flush_edges();
    }
  }

  /// Edges are written outside the clusters; otherwise Graphviz would draw their ends inside.
  void flush_edges() {
    text_ += edges_;
    edges_.clear();
  }

  void line(const std::string& content) {
    text_.append(2 * (depth_ + 1), ' ');
    text_ += content + "\n";
  }

  const Graph& graph_;
  std::vector<Run> runs_;
  std::vector<std::optional<std::size_t>> source_;  ///< By tensor: the box that shows its producer.
  std::string text_;
  std::string edges_;
  std::size_t depth_ = 0;
};

}  // namespace

std::string to_dot(const Graph& graph, const DotOptions& options) {
  return DotWriter(graph, options).write();
}

}  // namespace headroom::ir
