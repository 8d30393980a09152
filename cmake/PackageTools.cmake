# Read by cpack when it starts: libraries become dependencies where the machine can find out which
# package each is from. `file` tells CPack's script which files are programs.
find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
find_program(FILE_UTILITY file)
if(DPKG_SHLIBDEPS AND FILE_UTILITY)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
else()
  message(STATUS "Without dpkg-shlibdeps and file the packages name no libraries that they need")
endif()
