#include "costmodel/hardware/fit/search.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace headroom::cost::fit {
namespace {

constexpr double kPull = 1e-3;

struct Corner {
  double value;
  Point at;
};

Point along(const Point& from, const Point& to, double share) {
  Point point(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    point[i] = from[i] + share * (to[i] - from[i]);
  }
  return point;
}

/// The simplex during the search.
class Simplex {
 public:
  Simplex(const std::function<double(const Point&)>& objective, const Point& start, double scale)
      : objective_(objective) {
    corners_.push_back(corner_at(start));
    for (std::size_t axis = 0; axis < start.size(); ++axis) {
      Point point = start;
      point[axis] += scale;
      corners_.push_back(corner_at(std::move(point)));
    }
    sort();
  }

  [[nodiscard]] const Corner& best() const { return corners_.front(); }

  void step() {
    const Point middle = centre();
    const Point worst = corners_.back().at;
    Corner tried = corner_at(along(middle, worst, -1));
    if (tried.value < best().value) {
      Corner farther = corner_at(along(middle, worst, -2));
      if (farther.value < tried.value) {
        tried = std::move(farther);
      }
    } else if (tried.value >= corners_[corners_.size() - 2].value) {
      const double share = tried.value < corners_.back().value ? -0.5 : 0.5;
      Corner nearer = corner_at(along(middle, worst, share));
      if (nearer.value >= std::min(tried.value, corners_.back().value)) {
        shrink();
        return;
      }
      tried = std::move(nearer);
    }
    corners_.back() = std::move(tried);
    sort();
  }

 private:
  [[nodiscard]] Corner corner_at(Point point) const {
    const double value = objective_(point);
    return {value, std::move(point)};
  }

  [[nodiscard]] Point centre() const {
    Point middle(best().at.size(), 0.0);
    for (std::size_t i = 0; i + 1 < corners_.size(); ++i) {
      for (std::size_t axis = 0; axis < middle.size(); ++axis) {
        middle[axis] += corners_[i].at[axis] / static_cast<double>(corners_.size() - 1);
      }
    }
    return middle;
  }

  void shrink() {
    for (std::size_t i = 1; i < corners_.size(); ++i) {
      corners_[i] = corner_at(along(best().at, corners_[i].at, 0.5));
    }
    sort();
  }

  void sort() {
    std::stable_sort(corners_.begin(), corners_.end(),
                     [](const Corner& a, const Corner& b) { return a.value < b.value; });
  }

  const std::function<double(const Point&)>& objective_;
  std::vector<Corner> corners_;
};

}  // namespace

Point minimum_near(const std::function<double(const Point&)>& misfit, Point start, double scale) {
  const std::function<double(const Point&)> objective = [&misfit, from = start](const Point& at) {
    double distance = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      distance += (at[axis] - from[axis]) * (at[axis] - from[axis]);
    }
    return misfit(at) + kPull * distance;
  };
  double best = objective(start);
  for (int restart = 0; restart < 12; ++restart) {
    Simplex simplex(objective, start, restart % 2 == 0 ? scale : -scale);
    for (std::size_t step = 0; step < 200 * start.size(); ++step) {
      simplex.step();
    }
    const double gained = best - simplex.best().value;
    start = simplex.best().at;
    best = simplex.best().value;
    if (restart > 1 && gained < 1e-5) {
      break;
    }
  }
  return start;
}

}  // namespace headroom::cost::fit
