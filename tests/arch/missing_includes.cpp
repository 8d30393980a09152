#include "tests/arch/missing_includes.h"

#include <algorithm>
#include <utility>

#include "tests/arch/standard_names.h"

namespace headroom::arch {
namespace {

using Names = std::set<std::string_view>;

/// "INT64_MAX": a standard macro stands in no namespace.
bool is_macro_name(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

/// "QString", but not "Q_OBJECT".
bool is_qt_class(std::string_view name) {
  return name.size() > 2 && name[0] == 'Q' && name[1] >= 'A' && name[1] <= 'Z' &&
         !is_macro_name(name);
}

/// What the header of a Qt class declares because the class is made of it or takes it.
const Names& given_by_qt(std::string_view header) {
  static const Names model = {"QModelIndex", "QObject", "QString", "QVariant"};
  static const Names widget = {"QDragEnterEvent", "QDropEvent", "QEvent",       "QFocusEvent",
                               "QKeyEvent",       "QMenu",      "QMouseEvent",  "QObject",
                               "QPaintEvent",     "QPoint",     "QResizeEvent", "QSize",
                               "QString",         "QWidget"};
  static const std::map<std::string_view, const Names*> table = {{"QAbstractItemModel", &model},
                                                                 {"QAbstractScrollArea", &widget},
                                                                 {"QAbstractTableModel", &model},
                                                                 {"QFrame", &widget},
                                                                 {"QMainWindow", &widget},
                                                                 {"QSlider", &widget},
                                                                 {"QSpinBox", &widget},
                                                                 {"QUndoCommand", &model},
                                                                 {"QWidget", &widget}};
  static const Names nothing;
  const auto found = table.find(header);
  return found == table.end() ? nothing : *found->second;
}

std::string either_of(const std::vector<std::string_view>& parts) {
  std::string text;
  for (const std::string_view part : parts) {
    text += (text.empty() ? "" : " or ") + std::string(part);
  }
  return text;
}

/// One file, and the headers that it reaches.
class Reader {
 public:
  Reader(const SourceSet& sources, std::string_view path)
      : sources_(sources), is_header_(path.ends_with(".h")), file_(*sources.find(path)) {
    files_.push_back(&file_);
    reach(file_);
  }

  std::vector<std::string> missing() {
    for (const NameUse& use : file_.names.uses) {
      const std::string need = need_of(use);
      if (!need.empty()) {
        missing_.insert(std::string(use.name) + " needs " + need);
      }
    }
    return {missing_.begin(), missing_.end()};
  }

 private:
  void reach(const SourceSet::File& from) {
    for (const std::string_view include : from.names.includes) {
      if (!reached_.insert(include).second) {
        continue;
      }
      if (const SourceSet::File* const file = sources_.find(include)) {
        files_.push_back(file);
        reach(*file);
      }
    }
  }

  [[nodiscard]] bool reaches_one_of(const std::vector<std::string_view>& headers) const {
    return std::any_of(headers.begin(), headers.end(),
                       [this](std::string_view header) { return reached_.contains(header); });
  }

  [[nodiscard]] bool is_in(Names SourceNames::*kind, std::string_view name) const {
    return std::any_of(files_.begin(), files_.end(), [kind, name](const SourceSet::File* file) {
      return (file->names.*kind).contains(name);
    });
  }

  [[nodiscard]] bool is_declared(std::string_view name) const {
    return file_.names.parameters.contains(name) || is_in(&SourceNames::inner, name);
  }

  /// The include that a use lacks; empty if none.
  [[nodiscard]] std::string need_of(const NameUse& use) const {
    if (use.qualifier == "std" || (use.qualifier.empty() && is_macro_name(use.name))) {
      return standard_need(use);
    }
    if (!use.qualifier.empty() && !sources_.namespaces().contains(use.qualifier)) {
      return "";
    }
    if (is_header_ && is_qt_class(use.name)) {
      return qt_need(use);
    }
    return our_need(use);
  }

  [[nodiscard]] std::string standard_need(const NameUse& use) const {
    const std::vector<std::string_view> headers = headers_of_standard(use.name);
    if (headers.empty()) {
      return use.qualifier.empty() ? our_need(use) : "a row of tests/arch/standard_names.cpp";
    }
    return reaches_one_of(headers) ? "" : either_of(headers);
  }

  [[nodiscard]] std::string qt_need(const NameUse& use) const {
    const bool is_given = reached_.contains(use.name) || is_in(&SourceNames::announced, use.name) ||
                          is_declared(use.name) ||
                          std::any_of(reached_.begin(), reached_.end(), [&use](auto header) {
                            return given_by_qt(header).contains(use.name);
                          });
    return is_given ? "" : std::string(use.name);
  }

  [[nodiscard]] std::string our_need(const NameUse& use) const {
    const auto type = sources_.types().find(use.name);
    const auto function =
        use.is_call ? sources_.functions().find(use.name) : sources_.functions().end();
    const bool is_type = type != sources_.types().end();
    if (!is_type && function == sources_.functions().end()) {
      return "";
    }
    const std::vector<std::string_view>& headers = is_type ? type->second : function->second;
    if (reaches_one_of(headers) || is_declared(use.name)) {
      return "";
    }
    const bool is_enough = !use.needs_definition && is_in(&SourceNames::announced, use.name);
    return is_enough ? "" : either_of(headers);
  }

  const SourceSet& sources_;
  bool is_header_;
  const SourceSet::File& file_;
  std::vector<const SourceSet::File*> files_;  ///< This one and ours that it reaches.
  Names reached_;                              ///< As they are included.
  std::set<std::string> missing_;
};

}  // namespace

void SourceSet::add(Source source) {
  const auto place = files_.try_emplace(std::move(source.path)).first;
  const std::string& path = place->first;
  File& file = place->second;
  file.text = std::move(source.text);
  file.names = names_in(file.text);
  namespaces_.insert(file.names.namespaces.begin(), file.names.namespaces.end());
  if (path.ends_with(".h")) {
    for (const std::string_view name : file.names.types) {
      types_[name].push_back(path);
    }
    for (const std::string_view name : file.names.functions) {
      functions_[name].push_back(path);
    }
  }
}

const SourceSet::File* SourceSet::find(std::string_view path) const {
  const auto found = files_.find(path);
  return found == files_.end() ? nullptr : &found->second;
}

std::vector<std::string> missing_includes(const SourceSet& sources, std::string_view path) {
  return Reader(sources, path).missing();
}

}  // namespace headroom::arch
