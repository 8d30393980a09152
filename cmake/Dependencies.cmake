# Everything by find_package; nothing is downloaded at configure time. The floors are what Debian 12
# ships; `run` knows the package names.
find_package(Boost 1.74 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Threads REQUIRED)
# Only `sweep` uses it, through a module of its own; the C interface alone. Sanitizers report what
# MPI's libraries leave behind.
if(NOT HEADROOM_SANITIZE)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
endif()
# Only `snapshot` uses it, to read exports of Nsight Systems.
find_package(SQLite3 3.36 QUIET)
if(HEADROOM_BUILD_TESTS)
  find_package(doctest 2.4 REQUIRED)
endif()

# AUTO takes Qt when it is there; ON insists, so that asking for the window cannot end without one.
set(HEADROOM_GUI_FOUND OFF)
if(NOT HEADROOM_BUILD_GUI STREQUAL "OFF")
  if(HEADROOM_BUILD_GUI STREQUAL "ON")
    find_package(Qt6 6.4 REQUIRED COMPONENTS Core Gui Widgets Test)
  else()
    find_package(Qt6 6.4 QUIET COMPONENTS Core Gui Widgets Test)
  endif()
  if(Qt6_FOUND)
    set(HEADROOM_GUI_FOUND ON)
    find_package(Qt6Svg QUIET)  # Without it, charts are saved as PNG only.
  endif()
endif()
