# find_package(chx): chx::chx is the shared library, chx::chx_static the static one.
#
# The tarball brings the Abseil that the libraries were built with. The Debian package depends on
# Debian's.
include(CMakeFindDependencyMacro)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_dependency(Threads)

get_filename_component(_chx_libdir "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_chx_prefix "${CMAKE_CURRENT_LIST_DIR}/@PREFIX_FROM_CONFIG@" ABSOLUTE)
set(chx_CHXD "${_chx_prefix}/bin/chxd")

if(NOT TARGET chx::chx)
  add_library(chx::absl INTERFACE IMPORTED)
  add_library(chx::absl_static INTERFACE IMPORTED)
  if(EXISTS "${_chx_libdir}/libchx-absl.a")
    file(GLOB _chx_absl "${_chx_libdir}/libabsl_*.so.*")
    set_target_properties(chx::absl PROPERTIES INTERFACE_LINK_LIBRARIES "${_chx_absl}")
    set_target_properties(chx::absl_static PROPERTIES
      INTERFACE_LINK_LIBRARIES "${_chx_libdir}/libchx-absl.a")
    set(_chx_zip "${_chx_libdir}/libzip.so.4" "-Wl,-rpath,${_chx_libdir}")
  else()
    find_dependency(absl)
    set(_chx_zip zip)
    set_target_properties(chx::absl chx::absl_static PROPERTIES INTERFACE_LINK_LIBRARIES
      "absl::status;absl::statusor;absl::strings;absl::inlined_vector;absl::flat_hash_map;absl::span;absl::optional")
  endif()

  add_library(chx::chx SHARED IMPORTED)
  set_target_properties(chx::chx PROPERTIES
    IMPORTED_LOCATION "${_chx_libdir}/libchx.so.@SOVERSION@"
    IMPORTED_SONAME "libchx.so.@SOVERSION@"
    INTERFACE_COMPILE_FEATURES cxx_std_17
    INTERFACE_INCLUDE_DIRECTORIES "${_chx_prefix}/include"
    INTERFACE_LINK_LIBRARIES chx::absl)

  add_library(chx::chx_static STATIC IMPORTED)
  set_target_properties(chx::chx_static PROPERTIES
    IMPORTED_LOCATION "${_chx_libdir}/libchx.a"
    INTERFACE_COMPILE_FEATURES cxx_std_17
    INTERFACE_INCLUDE_DIRECTORIES "${_chx_prefix}/include"
    INTERFACE_LINK_LIBRARIES "chx::absl_static;${_chx_zip};ssl;crypto;z;Threads::Threads")
endif()
unset(_chx_absl)
unset(_chx_zip)
unset(_chx_libdir)
unset(_chx_prefix)
