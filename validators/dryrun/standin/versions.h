#pragma once

#include <cstddef>

namespace headroom::standin {

/// The releases that the libraries of a CUDA major version call themselves.
struct LibraryVersions {
  int cuda;              ///< cudaRuntimeGetVersion.
  int cublas;            ///< cublasGetVersion.
  std::size_t cublaslt;  ///< cublasLtGetVersion.
};

/// Source: CUDA 12.8 update 1 and 13.0 update 2 release notes, versions of their components.
constexpr LibraryVersions version_of(int major) {
  return major >= 13 ? LibraryVersions{13000, 130100, 130100}
                     : LibraryVersions{12080, 120804, 120804};
}

}  // namespace headroom::standin
