# Runs a portfile as vcpkg does, with stand-ins for vcpkg's functions that do the same work.
#
#   cmake -DPORT_DIR=... -DARCHIVE_FILE=... -DCARGO=... -DVERSION=... -DLINKAGE=static -DWORK=... -P port.cmake
#
# An unknown function, an unknown argument, a wrong checksum, and a replacement that finds nothing
# are errors. The package comes to WORK/packages.

cmake_minimum_required(VERSION 3.21)

set(PORT cntk-reader)
set(VCPKG_LIBRARY_LINKAGE "${LINKAGE}")
set(CURRENT_PACKAGES_DIR "${WORK}/packages")

# Parses the arguments of a function whose first parameters have names.
macro(take first one many)
  cmake_parse_arguments(PARSE_ARGV ${first} arg "" "${one}" "${many}")
  if(DEFINED arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${CMAKE_CURRENT_FUNCTION} has no argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
endmacro()

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()

function(vcpkg_download_distfile result)
  take(1 "FILENAME;SHA512" "URLS")
  file(SHA512 "${ARCHIVE_FILE}" found)
  if(NOT found STREQUAL arg_SHA512)
    message(FATAL_ERROR "${arg_FILENAME} has checksum ${found}, not ${arg_SHA512}")
  endif()
  get_filename_component(name "${ARCHIVE_FILE}" NAME)
  if(NOT arg_URLS MATCHES "^https://.*/v${VERSION}/${name}$" OR NOT arg_FILENAME STREQUAL name)
    message(FATAL_ERROR "${arg_URLS} and ${arg_FILENAME} do not name ${name}")
  endif()
  set(${result} "${ARCHIVE_FILE}" PARENT_SCOPE)
endfunction()

function(vcpkg_extract_source_archive result)
  take(1 "ARCHIVE" "")
  file(ARCHIVE_EXTRACT INPUT "${arg_ARCHIVE}" DESTINATION "${WORK}/src")
  file(GLOB folders "${WORK}/src/*")
  list(LENGTH folders count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "${arg_ARCHIVE} has ${count} folders at its top")
  endif()
  set(${result} "${folders}" PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
  take(0 "SOURCE_PATH" "OPTIONS")
  run("${CMAKE_COMMAND}" -S "${arg_SOURCE_PATH}" -B "${WORK}/build" -DCMAKE_BUILD_TYPE=Release
      "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}" -DCMAKE_INSTALL_LIBDIR=lib ${arg_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
  take(0 "" "")
  run("${CMAKE_COMMAND}" --build "${WORK}/build" --target install)
endfunction()

function(vcpkg_replace_string file from to)
  file(READ "${file}" text)
  string(REPLACE "${from}" "${to}" replaced "${text}")
  if(text STREQUAL replaced)
    message(FATAL_ERROR "${file} has no ${from}")
  endif()
  file(WRITE "${file}" "${replaced}")
endfunction()

function(vcpkg_cmake_config_fixup)
  take(0 "PACKAGE_NAME;CONFIG_PATH" "")
  file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/share")
  file(RENAME "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}"
       "${CURRENT_PACKAGES_DIR}/share/${arg_PACKAGE_NAME}")
  file(REMOVE "${CURRENT_PACKAGES_DIR}/lib/cmake")
endfunction()

function(vcpkg_fixup_pkgconfig)
  take(0 "" "")
  file(GLOB found "${CURRENT_PACKAGES_DIR}/lib/pkgconfig/*.pc")
  if(NOT found)
    message(FATAL_ERROR "There is no file for pkg-config")
  endif()
endfunction()

function(vcpkg_install_copyright)
  take(0 "" "FILE_LIST")
  file(READ "${arg_FILE_LIST}" text)
  file(WRITE "${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright" "${text}")
endfunction()

include("${PORT_DIR}/portfile.cmake")

if(NOT VCPKG_BUILD_TYPE STREQUAL "release")
  message(FATAL_ERROR "vcpkg would look for the libraries of a debug build")
endif()
foreach(needed include/cntk_reader.hpp share/cntk_reader/cntk_reader-config.cmake
        share/${PORT}/copyright share/${PORT}/usage)
  if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/${needed}")
    message(FATAL_ERROR "The package has no ${needed}")
  endif()
endforeach()
