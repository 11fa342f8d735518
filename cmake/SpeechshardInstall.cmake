# Installs the CMake package speechshard, one pkg-config file per library, man pages, and
# completion. All of it is relocatable: paths are relative to the files.
include(CMakePackageConfigHelpers)

get_property(_libraries GLOBAL PROPERTY SPEECHSHARD_LIBRARIES)

# A program must link the dependencies of a static library, but not of a shared library.
# SPEECHSHARD_FIND_DEPENDENCIES begins with the topmost library, which adds the libraries below it.
set(SPEECHSHARD_FIND_DEPENDENCIES "")
foreach(_library IN LISTS _libraries)
    get_property(_requires GLOBAL PROPERTY SPEECHSHARD_REQUIRES_${_library})
    list(TRANSFORM _requires REPLACE "(.+)" "speechshard-\\1 = ${PROJECT_VERSION}" OUTPUT_VARIABLE PC_REQUIRES)
    set(PC_LIBS "")
    set(_find "")
    if(NOT BUILD_SHARED_LIBS)
        # Requires, not Requires.private: `pkg-config --static` also asks for what the dependencies
        # need if they are static.
        get_property(_dependencies GLOBAL PROPERTY SPEECHSHARD_DEPENDENCIES_${_library})
        while(_dependencies)
            list(POP_FRONT _dependencies _dependency)
            get_property(_embedded GLOBAL PROPERTY SPEECHSHARD_EMBEDDED_${_dependency})
            if(_embedded)
                string(APPEND PC_LIBS " -lspeechshard-${_embedded}")
                get_property(_more GLOBAL PROPERTY SPEECHSHARD_DEPENDENCIES_${_dependency})
                list(APPEND _dependencies ${_more})
            elseif(_dependency MATCHES "^PkgConfig::(.*)$")
                set(_spec "${SPEECHSHARD_DEPENDENCY_${CMAKE_MATCH_1}}")
                string(APPEND _find "    pkg_check_modules(${CMAKE_MATCH_1} REQUIRED IMPORTED_TARGET GLOBAL \"${_spec}\")\n")
                string(REPLACE ">=" " >= " _spec "${_spec}")
                list(APPEND PC_REQUIRES "${_spec}")
            elseif(_dependency STREQUAL "Threads::Threads")
                string(APPEND PC_LIBS " -pthread")
            elseif(NOT TARGET ${_dependency})
                string(APPEND PC_LIBS " -l${_dependency}")
            endif()
        endwhile()
        string(PREPEND SPEECHSHARD_FIND_DEPENDENCIES "if(\"${_library}\" IN_LIST _speechshard_wanted)\n"
            "    list(APPEND _speechshard_wanted ${_requires})\n${_find}endif()\n")
    endif()
    list(JOIN PC_REQUIRES ", " PC_REQUIRES)
    set(PC_LIBRARY ${_library})
    # A configured prefix would be wrong after `cmake --install --prefix`.
    file(RELATIVE_PATH PC_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
    string(REGEX REPLACE "/$" "" PC_PREFIX "${PC_PREFIX}")
    configure_file("${PROJECT_SOURCE_DIR}/cmake/speechshard.pc.in"
                   "${PROJECT_BINARY_DIR}/speechshard-${_library}.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/speechshard-${_library}.pc"
            DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()
if(SPEECHSHARD_FIND_DEPENDENCIES)
    string(PREPEND SPEECHSHARD_FIND_DEPENDENCIES
        "include(CMakeFindDependencyMacro)\nfind_dependency(PkgConfig)\nfind_dependency(Threads)\n")
endif()

set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/speechshard")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/speechshardConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/speechshardConfig.cmake" INSTALL_DESTINATION "${_package_dir}"
    NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/speechshardConfigVersion.cmake"
    COMPATIBILITY ${SPEECHSHARD_COMPATIBILITY})
install(EXPORT speechshard NAMESPACE speechshard:: FILE speechshardTargets.cmake
        DESTINATION "${_package_dir}")
install(FILES "${PROJECT_BINARY_DIR}/speechshardConfig.cmake"
              "${PROJECT_BINARY_DIR}/speechshardConfigVersion.cmake"
        DESTINATION "${_package_dir}")

# One man page per public header, made from its comments.
file(STRINGS docs/man/speechshard.1 _date REGEX "^[.]Dd " LIMIT_COUNT 1)
string(REPLACE ".Dd " "" _date "${_date}")
set(_script "${PROJECT_SOURCE_DIR}/docs/man/header-page.awk")
set(_pages "")
foreach(_library IN LISTS _libraries)
    get_target_property(_headers ${_library} HEADER_SET)
    get_target_property(_folder ${_library} SOURCE_DIR)
    foreach(_header IN LISTS _headers)
        cmake_path(ABSOLUTE_PATH _header BASE_DIRECTORY "${_folder}")
        cmake_path(GET _header STEM _name)
        file(STRINGS "${_header}" _opening LIMIT_COUNT 3)
        if(NOT _opening MATCHES "[Nn]ot for users")
            set(_page "${PROJECT_BINARY_DIR}/man/speechshard-${_name}.3")
            add_custom_command(OUTPUT "${_page}" DEPENDS "${_header}" "${_script}" VERBATIM
                COMMAND awk -v name=${_name} -v library=${_library} -v "date=${_date}" -f "${_script}" "${_header}" > "${_page}")
            list(APPEND _pages "${_page}")
        endif()
    endforeach()
endforeach()
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/man")
add_custom_target(man_pages ALL DEPENDS ${_pages})

install(FILES ${_pages} DESTINATION "${CMAKE_INSTALL_MANDIR}/man3")
install(FILES docs/man/speechshard.1 DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT command)
install(FILES docs/man/speechshard-format.5 DESTINATION "${CMAKE_INSTALL_MANDIR}/man5" COMPONENT command)
install(FILES tools/completion/speechshard.bash RENAME speechshard
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT command)
install(FILES tools/completion/_speechshard DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" COMPONENT command)
install(FILES tools/completion/speechshard.fish DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d"
        COMPONENT command)
