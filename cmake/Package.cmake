# `./run package`, or `cpack` in a build folder: one Debian package for each component of
# Install.cmake, so that a server does not need Qt.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME headroom)
set(CPACK_PACKAGE_VENDOR "Headroom developers")
# RFC 2606 reserves .invalid, so nobody gets mail by mistake. Whoever distributes the packages names
# an address of their own: cpack -D CPACK_PACKAGE_CONTACT="NAME <ADDRESS>".
set(CPACK_PACKAGE_CONTACT "Headroom developers <noreply@headroom.invalid>")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGE_INSTALL_DIRECTORY headroom)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL ${HEADROOM_COMPONENTS})

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/PackageTools.cmake)

set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "memory-planning simulator for training transformer models")
set(about_program
"Headroom answers whether a model fits on a GPU, how fast a training step
will be, and which plan is best, before a GPU is rented. It replays every
allocation that PyTorch, transformers, FSDP, DeepSpeed and Megatron-Core
make in a training step. It needs neither a GPU nor PyTorch.")
set(about_gui
"Headroom answers whether a model fits on a GPU before a GPU is rented.
This package contains the window, which shows at once what a change of the
plan does to the memory of each phase.")
set(about_mpi
"Headroom answers whether a model fits on a GPU before a GPU is rented.
With this package, mpirun distributes `headroom sweep` over many machines.")
foreach(component ${HEADROOM_COMPONENTS})
  headroom_package_name(${component} package)
  string(TOUPPER ${component} name)
  set(CPACK_DEBIAN_${name}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${name}_DESCRIPTION "${about_${component}}")
  if(NOT component STREQUAL "program")
    set(CPACK_DEBIAN_${name}_PACKAGE_DEPENDS "headroom (= ${PROJECT_VERSION})")
  endif()
endforeach()
include(CPack)
