# What is installed beside libraries and command: the CMake package speechshard, one pkg-config file
# a library, man pages, completion. All of it is relocatable: paths are relative to the files.
include(CMakePackageConfigHelpers)

get_property(_libraries GLOBAL PROPERTY SPEECHSHARD_LIBRARIES)

# A consumer of a static library needs what the library was built with; of a shared one, nothing.
set(SPEECHSHARD_FIND_DEPENDENCIES "")
foreach(_library IN LISTS _libraries)
    get_property(_dependencies GLOBAL PROPERTY SPEECHSHARD_DEPENDENCIES_${_library})
    set(PC_REQUIRES "")
    set(PC_LIBS "")
    foreach(_dependency IN LISTS _dependencies)
        if(_dependency MATCHES "^PkgConfig::(.*)$")
            set(_spec "${SPEECHSHARD_DEPENDENCY_${CMAKE_MATCH_1}}")
            string(APPEND SPEECHSHARD_FIND_DEPENDENCIES
                "pkg_check_modules(${CMAKE_MATCH_1} REQUIRED IMPORTED_TARGET GLOBAL \"${_spec}\")\n")
            string(REPLACE ">=" " >= " _spec "${_spec}")
            list(APPEND PC_REQUIRES "${_spec}")
        elseif(_dependency STREQUAL "Threads::Threads")
            string(APPEND PC_LIBS " -pthread")
        elseif(NOT TARGET ${_dependency})
            string(APPEND PC_LIBS " -l${_dependency}")
        endif()
    endforeach()
    list(JOIN PC_REQUIRES ", " PC_REQUIRES)
    # Our own libraries are part of the interface: their headers are included, shared or not.
    get_property(_requires GLOBAL PROPERTY SPEECHSHARD_REQUIRES_${_library})
    list(TRANSFORM _requires PREPEND "speechshard-")
    list(TRANSFORM _requires APPEND " = ${PROJECT_VERSION}")
    list(JOIN _requires ", " PC_OWN)
    # With a static library they are not private: the consumer links them, shared or not, whereas
    # `pkg-config --static` would ask for static versions of everything below them too.
    if(BUILD_SHARED_LIBS)
        set(PC_LIBS "")
    endif()
    # pkg-config takes each field once.
    if(BUILD_SHARED_LIBS)
        set(PC_REQUIRE_LINES "Requires: ${PC_OWN}\nRequires.private: ${PC_REQUIRES}")
    else()
        list(APPEND PC_OWN ${PC_REQUIRES})
        list(JOIN PC_OWN ", " PC_OWN)
        set(PC_REQUIRE_LINES "Requires: ${PC_OWN}")
    endif()
    set(PC_LIBRARY ${_library})
    # A configured prefix would be wrong after `cmake --install --prefix`.
    file(RELATIVE_PATH PC_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
    string(REGEX REPLACE "/$" "" PC_PREFIX "${PC_PREFIX}")
    configure_file("${PROJECT_SOURCE_DIR}/cmake/speechshard.pc.in"
                   "${PROJECT_BINARY_DIR}/speechshard-${_library}.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/speechshard-${_library}.pc"
            DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()
if(BUILD_SHARED_LIBS)
    set(SPEECHSHARD_FIND_DEPENDENCIES "")
endif()

set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/speechshard")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/speechshardConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/speechshardConfig.cmake" INSTALL_DESTINATION "${_package_dir}"
    NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/speechshardConfigVersion.cmake"
    COMPATIBILITY ${SPEECHSHARD_COMPATIBILITY})
install(EXPORT speechshard NAMESPACE speechshard:: FILE speechshardTargets.cmake
        DESTINATION "${_package_dir}")
install(FILES "${PROJECT_BINARY_DIR}/speechshardConfig.cmake"
              "${PROJECT_BINARY_DIR}/speechshardConfigVersion.cmake"
        DESTINATION "${_package_dir}")

install(FILES docs/man/speechshard.1 DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
install(FILES docs/man/speechshard-loader.3 DESTINATION "${CMAKE_INSTALL_MANDIR}/man3")
install(FILES docs/man/speechshard-format.5 DESTINATION "${CMAKE_INSTALL_MANDIR}/man5")
install(FILES tools/completion/speechshard.bash RENAME speechshard
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
