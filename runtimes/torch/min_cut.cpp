#include "runtimes/torch/min_cut.h"

#include <utility>

#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <boost/range/iterator_range.hpp>

#include "model_ir/base/check.h"

namespace headroom::ir::torch {
namespace {

/// The edges of a network and their reverses. An edge stores its index in the list it was made
/// from, where edge and reverse are neighbours: 2 i and 2 i + 1.
using Arcs = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, std::size_t>;
using Arc = boost::graph_traits<Arcs>::edge_descriptor;

Arcs arcs_of(const FlowNetwork& network) {
  std::vector<std::pair<std::size_t, std::size_t>> ends;
  std::vector<std::size_t> places;
  ends.reserve(2 * network.edges.size());
  places.reserve(2 * network.edges.size());
  for (const FlowEdge& edge : network.edges) {
    HEADROOM_ASSERT(edge.from != edge.to);
    ends.emplace_back(edge.from, edge.to);
    ends.emplace_back(edge.to, edge.from);
    places.push_back(places.size());
    places.push_back(places.size());
  }
  return {boost::edges_are_unsorted_multi_pass, ends.begin(), ends.end(), places.begin(),
          network.vertices};
}

/// The residual network of a maximum flow.
class ResidualNetwork {
 public:
  explicit ResidualNetwork(const FlowNetwork& network)
      : arcs_(arcs_of(network)),
        residual_(boost::num_edges(arcs_)),
        reverse_(boost::num_edges(arcs_)) {
    std::vector<Arc> listed(residual_.size());
    for (const Arc& arc : boost::make_iterator_range(boost::edges(arcs_))) {
      listed[arcs_[arc]] = arc;
    }
    std::vector<std::int64_t> capacity(residual_.size(), 0);
    for (std::size_t i = 0; i < network.edges.size(); ++i) {
      const Arc& edge = listed[2 * i];
      const Arc& back = listed[2 * i + 1];
      capacity[edge.idx] = network.edges[i].capacity;
      reverse_[edge.idx] = back;
      reverse_[back.idx] = edge;
    }
    const auto by_edge = boost::get(boost::edge_index, arcs_);
    const std::int64_t flow = boost::boykov_kolmogorov_max_flow(
        arcs_, boost::make_iterator_property_map(capacity.begin(), by_edge),
        boost::make_iterator_property_map(residual_.begin(), by_edge),
        boost::make_iterator_property_map(reverse_.begin(), by_edge),
        boost::get(boost::vertex_index, arcs_), network.source, network.sink);
    HEADROOM_ASSERT(flow < FlowNetwork::kUnbounded);
  }

  /// Whether there is a path from each vertex to `end`.
  [[nodiscard]] std::vector<bool> reaches(std::size_t end) const {
    std::vector<boost::default_color_type> colors(boost::num_vertices(arcs_));
    boost::breadth_first_search(boost::filtered_graph(arcs_, IsOpenBackwards{this}), end,
                                boost::color_map(boost::make_iterator_property_map(
                                    colors.begin(), boost::get(boost::vertex_index, arcs_))));
    std::vector<bool> found(colors.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i] = colors[i] == boost::black_color;
    }
    return found;
  }

 private:
  /// Keeps the edges whose reverses have capacity left.
  struct IsOpenBackwards {
    const ResidualNetwork* network = nullptr;
    bool operator()(const Arc& arc) const {
      return network->residual_[network->reverse_[arc.idx].idx] > 0;
    }
  };

  Arcs arcs_;
  std::vector<std::int64_t> residual_;  ///< By edge; the next two as well.
  std::vector<Arc> reverse_;
};

}  // namespace

std::vector<bool> sink_side(const FlowNetwork& network) {
  return ResidualNetwork(network).reaches(network.sink);
}

}  // namespace headroom::ir::torch
