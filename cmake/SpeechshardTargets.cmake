# The functions with which every library, program, test, fuzz target and benchmark is declared.
# Flags live in one INTERFACE target that is linked PRIVATE; nothing touches CMAKE_C_FLAGS.

add_library(speechshard_build_flags INTERFACE)
target_compile_features(speechshard_build_flags INTERFACE c_std_11)
target_compile_definitions(speechshard_build_flags INTERFACE _GNU_SOURCE _FILE_OFFSET_BITS=64)
target_compile_options(speechshard_build_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-qual
    -Wcast-align -Wpointer-arith -Wwrite-strings -Wvla -Wformat=2 -Wdouble-promotion -Wimplicit-fallthrough
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>)
if(SPEECHSHARD_SANITIZE)
    target_compile_options(speechshard_build_flags INTERFACE
        -fsanitize=${SPEECHSHARD_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(speechshard_build_flags INTERFACE -fsanitize=${SPEECHSHARD_SANITIZE})
    if(SPEECHSHARD_SANITIZE MATCHES "undefined")
        target_compile_options(speechshard_build_flags INTERFACE -fno-sanitize-recover=undefined)
    endif()
    # AddressSanitizer's runtime as a shared library: an interpreter without a sanitizer can run a
    # module with one if the runtime is loaded first (tests/CMakeLists.txt). gcc links it this way
    # by default; clang needs an option.
    set(SPEECHSHARD_ASAN_LIBRARY "")
    if(SPEECHSHARD_SANITIZE MATCHES "address")
        set(_name libasan.so)
        if(CMAKE_C_COMPILER_ID MATCHES "Clang")
            set(_name libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so)
        endif()
        execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=${_name}
            OUTPUT_VARIABLE SPEECHSHARD_ASAN_LIBRARY OUTPUT_STRIP_TRAILING_WHITESPACE)
        if(NOT IS_ABSOLUTE "${SPEECHSHARD_ASAN_LIBRARY}") # only the name: no such file
            set(SPEECHSHARD_ASAN_LIBRARY "")
        elseif(CMAKE_C_COMPILER_ID MATCHES "Clang")
            get_filename_component(_folder "${SPEECHSHARD_ASAN_LIBRARY}" DIRECTORY)
            # Not in programs of libFuzzer, whose own runtime would be loaded before
            # AddressSanitizer's.
            set(_is_library $<NOT:$<BOOL:$<TARGET_PROPERTY:SPEECHSHARD_IS_FUZZER>>>)
            target_link_options(speechshard_build_flags INTERFACE
                $<${_is_library}:-shared-libasan> $<${_is_library}:LINKER:-rpath,${_folder}>)
        endif()
    endif()
endif()
if(SPEECHSHARD_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "SPEECHSHARD_FUZZ needs clang: configure with -DCMAKE_C_COMPILER=clang")
    endif()
    target_link_options(speechshard_build_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# speechshard_add_coverage(TARGET [EXCLUDE REGEX]): with SPEECHSHARD_FUZZ, the code of a target
# reports to libFuzzer which branches an input takes. Sources whose path matches REGEX do not.
# Reporting takes time, and tests run the same build, so only code that fuzz targets run has it.
function(speechshard_add_coverage target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXCLUDE" "")
    if(NOT SPEECHSHARD_FUZZ)
        return()
    endif()
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    if(arg_EXCLUDE)
        get_target_property(_sources ${target} SOURCES)
        list(FILTER _sources INCLUDE REGEX "${arg_EXCLUDE}")
        set_property(SOURCE ${_sources} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=fuzzer-no-link)
    endif()
endfunction()

function(_speechshard_common target)
    set_target_properties(${target} PROPERTIES
        C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF C_VISIBILITY_PRESET hidden
        POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:speechshard_build_flags>)
endfunction()

# Before 1.0 a minor version may break what links against it. The soname and find_package follow
# this.
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(SPEECHSHARD_SOVERSION "0.${PROJECT_VERSION_MINOR}")
    set(SPEECHSHARD_COMPATIBILITY SameMinorVersion)
else()
    set(SPEECHSHARD_SOVERSION "${PROJECT_VERSION_MAJOR}")
    set(SPEECHSHARD_COMPATIBILITY SameMajorVersion)
endif()

# speechshard_add_library(NAME HEADERS file... SOURCES file... LIBRARIES target...
#                         [REQUIRES name...])
#
# REQUIRES names libraries of ours whose headers those of NAME include. LIBRARIES may name an
# embedded library. The library NAME (alias speechshard::NAME; shared when BUILD_SHARED_LIBS says
# so), with the public headers under include/, installed and exported. NAME_internal is a static
# library of the same objects whose users see src/ too: tests reach hidden symbols through it. It is
# not installed.
function(speechshard_add_library name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;SOURCES;LIBRARIES;REQUIRES")
    list(TRANSFORM arg_REQUIRES PREPEND speechshard:: OUTPUT_VARIABLE _public)
    list(TRANSFORM arg_REQUIRES APPEND _internal OUTPUT_VARIABLE _internal)

    add_library(${name}_objects OBJECT ${arg_SOURCES})
    _speechshard_common(${name}_objects)
    target_include_directories(${name}_objects
        PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}/include" PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/src")
    target_link_libraries(${name}_objects PUBLIC ${_public} PRIVATE ${arg_LIBRARIES})

    add_library(${name} $<TARGET_OBJECTS:${name}_objects>)
    add_library(speechshard::${name} ALIAS ${name})
    _speechshard_common(${name})
    target_sources(${name} PUBLIC FILE_SET HEADERS
        BASE_DIRS "${CMAKE_CURRENT_SOURCE_DIR}/include" FILES ${arg_HEADERS})
    target_link_libraries(${name} PUBLIC ${_public} PRIVATE ${arg_LIBRARIES})
    set_target_properties(${name} PROPERTIES
        OUTPUT_NAME speechshard-${name} LINKER_LANGUAGE C VERIFY_INTERFACE_HEADER_SETS ON
        VERSION ${PROJECT_VERSION} SOVERSION ${SPEECHSHARD_SOVERSION}
        LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/speechshard.map")
    if(BUILD_SHARED_LIBS)
        target_link_options(${name} PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/speechshard.map")
    endif()
    install(TARGETS ${name} EXPORT speechshard
        LIBRARY COMPONENT runtime NAMELINK_COMPONENT development FILE_SET HEADERS)
    set_property(GLOBAL APPEND PROPERTY SPEECHSHARD_LIBRARIES ${name})
    set_property(GLOBAL PROPERTY SPEECHSHARD_DEPENDENCIES_${name} ${arg_LIBRARIES})
    set_property(GLOBAL PROPERTY SPEECHSHARD_REQUIRES_${name} ${arg_REQUIRES})

    add_library(${name}_internal STATIC $<TARGET_OBJECTS:${name}_objects>)
    set_target_properties(${name}_internal PROPERTIES LINKER_LANGUAGE C)
    target_include_directories(${name}_internal INTERFACE
        "${CMAKE_CURRENT_SOURCE_DIR}/include" "${CMAKE_CURRENT_SOURCE_DIR}/src")
    target_link_libraries(${name}_internal PUBLIC ${_internal} ${arg_LIBRARIES})
endfunction()

# speechshard_add_embedded_library(TARGET NAME name SOURCES file... LIBRARIES target...)
#
# A static library without public headers, for LIBRARIES of public libraries. Shared libraries
# contain and hide it. If libraries are static, it is installed as libspeechshard-NAME.a: .pc files
# and the CMake package name it.
function(speechshard_add_embedded_library target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME" "SOURCES;LIBRARIES")
    add_library(${target} STATIC ${arg_SOURCES})
    _speechshard_common(${target})
    target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/tools>)
    target_link_libraries(${target} PUBLIC ${arg_LIBRARIES})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME speechshard-${arg_NAME} EXPORT_NAME ${arg_NAME})
    set_property(GLOBAL PROPERTY SPEECHSHARD_EMBEDDED_${target} ${arg_NAME})
    set_property(GLOBAL PROPERTY SPEECHSHARD_DEPENDENCIES_${target} ${arg_LIBRARIES})
    if(NOT BUILD_SHARED_LIBS)
        install(TARGETS ${target} EXPORT speechshard)
    endif()
endfunction()

# All tests run in a locale with a decimal comma, since a host program may have set one. Its source
# is in Debian's package `locales`. SPEECHSHARD_TEST_LOCALE is the environment that selects it.
set(SPEECHSHARD_TEST_LOCALE "LC_ALL=C.UTF-8")
if(BUILD_TESTING)
    set(_locales "${PROJECT_BINARY_DIR}/locales")
    file(MAKE_DIRECTORY "${_locales}")
    if(NOT EXISTS "${_locales}/de_DE.UTF-8")
        execute_process(COMMAND localedef -i de_DE -f UTF-8 "${_locales}/de_DE.UTF-8" OUTPUT_QUIET ERROR_QUIET)
    endif()
    if(EXISTS "${_locales}/de_DE.UTF-8")
        set(SPEECHSHARD_TEST_LOCALE "LOCPATH=${_locales};LC_ALL=de_DE.UTF-8")
    else()
        message(STATUS "Tests run without a decimal comma: localedef has no de_DE (Debian: locales)")
    endif()
endif()

# Environment of tests: the command under test and the source tree. Data is found below
# SPEECHSHARD_TEST_DATA, else next to the source tree (tests/support/spsh_test.h). COMMAND and NEEDS
# name the targets that the test runs. The global property SPEECHSHARD_NEEDS_label collects them, to
# build only the tests of one label (tests/CMakeLists.txt).
function(_speechshard_test_properties name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "LABELS;COMMAND;NEEDS")
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    # The limit ends tests that hang. It does not check speed: TIMEOUT is about five times the
    # duration on an idle machine. The factor is for slow or busy machines and slow disks.
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 6")
    if(SPEECHSHARD_SANITIZE)
        math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")
        set(_environment ";SPEECHSHARD_TEST_FEWER=1") # for scripts
    endif()
    set(_cost 0)
    if("slow" IN_LIST arg_LABELS) # start slow tests first, so that none runs alone at the end
        set(_cost 10)
    endif()
    list(GET arg_COMMAND 0 _first)
    if(_first MATCHES "^[$]<TARGET_FILE:")
        list(APPEND arg_LABELS program)
    endif()
    set_tests_properties(${name} PROPERTIES COST ${_cost}
        LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77
        ENVIRONMENT "SPEECHSHARD_SOURCE_DIR=${PROJECT_SOURCE_DIR};SPEECHSHARD_BUILD_DIR=${PROJECT_BINARY_DIR};SPEECHSHARD_COMMAND=$<TARGET_FILE:speechshard>;${SPEECHSHARD_TEST_LOCALE}${_environment}")
    string(REGEX MATCHALL "<TARGET_FILE:[^>]+" _files "${arg_COMMAND}")
    list(TRANSFORM _files REPLACE "<TARGET_FILE:" "")
    foreach(_label ${arg_LABELS})
        set_property(GLOBAL APPEND PROPERTY SPEECHSHARD_NEEDS_${_label} ${arg_NEEDS} ${_files})
    endforeach()
endfunction()

# speechshard_add_test_program(NAME LIBRARIES target... [SOURCES file...])
#
# A program of many C tests, which speechshard_add_test adds: `NAME TEST [ARGUMENT...]` runs one of
# them. The tests share SOURCES. Under ThreadSanitizer, tests without threads are in a separate
# program, NAME_rest, so that the target thread_tests (tests/CMakeLists.txt) compiles only tests
# with threads.
function(speechshard_add_test_program name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES;SOURCES")
    set(_programs ${name})
    if(SPEECHSHARD_SANITIZE MATCHES "thread")
        list(APPEND _programs ${name}_rest)
    endif()
    foreach(_program IN LISTS _programs)
        set(_list "${CMAKE_CURRENT_BINARY_DIR}/${_program}.c")
        set(_tests "$<TARGET_PROPERTY:${_program},SPEECHSHARD_TESTS>")
        file(GENERATE OUTPUT "${_list}" CONTENT "/* The tests of ${_program}. CMake writes this file. */
#include \"test_runner.h\"

#define TESTS(TEST_) \\
    $<$<BOOL:${_tests}>:TEST_($<JOIN:${_tests},) \\
    TEST_(>)>
TEST_TABLE(TESTS)
")
        add_executable(${_program} ${arg_SOURCES} "${_list}")
        _speechshard_common(${_program})
        target_link_libraries(${_program} PRIVATE test_runner test_support ${arg_LIBRARIES})
    endforeach()
endfunction()

# speechshard_add_test(NAME [FUNCTION name] PROGRAM program SOURCES file... [LABELS label...]
#                      [TIMEOUT seconds] [ARGS argument...])
# speechshard_add_test(NAME [FUNCTION name] SOURCES file... [LIBRARIES target...] [INTERNAL]
#                      [LABELS label...] [TIMEOUT seconds] [ARGS argument...])
#
# A C test over tests/support: TEST_MAIN(FUNCTION) in one of SOURCES. FUNCTION defaults to NAME. The
# first form adds the test to a program (speechshard_add_test_program). The second form builds a
# separate program, called FUNCTION. INTERNAL links shardfmt_internal instead of the public library.
function(speechshard_add_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "INTERNAL" "FUNCTION;PROGRAM;TIMEOUT" "SOURCES;LIBRARIES;LABELS;ARGS")
    if(NOT arg_FUNCTION)
        set(arg_FUNCTION ${name})
    endif()
    if(arg_PROGRAM)
        if(SPEECHSHARD_SANITIZE MATCHES "thread" AND NOT "thread" IN_LIST arg_LABELS)
            string(APPEND arg_PROGRAM _rest)
        endif()
        target_sources(${arg_PROGRAM} PRIVATE ${arg_SOURCES})
        set_property(TARGET ${arg_PROGRAM} APPEND PROPERTY SPEECHSHARD_TESTS ${arg_FUNCTION})
        set(_command $<TARGET_FILE:${arg_PROGRAM}> ${arg_FUNCTION})
    else()
        _speechshard_add_lone_test(${arg_FUNCTION} ${arg_INTERNAL} SOURCES ${arg_SOURCES} LIBRARIES ${arg_LIBRARIES})
        set(_command $<TARGET_FILE:${arg_FUNCTION}>)
    endif()
    set_property(GLOBAL PROPERTY SPEECHSHARD_COMMAND_OF_${arg_FUNCTION} "${_command}")
    speechshard_add_case(${name} COMMAND ${arg_FUNCTION} ${arg_ARGS} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT})
endfunction()

# _speechshard_add_lone_test(NAME IS_INTERNAL SOURCES file... LIBRARIES target...)
function(_speechshard_add_lone_test name is_internal)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;LIBRARIES")
    add_executable(${name} ${arg_SOURCES})
    _speechshard_common(${name})
    target_compile_definitions(${name} PRIVATE TEST_IS_ALONE)
    target_link_libraries(${name} PRIVATE test_support ${arg_LIBRARIES})
    if(NOT "tools_internal" IN_LIST arg_LIBRARIES) # a library's host program may set a locale
        target_link_libraries(${name} PRIVATE comma_locale)
    endif()
    if(is_internal)
        target_link_libraries(${name} PRIVATE shardfmt_internal)
    else()
        target_link_libraries(${name} PRIVATE speechshard::shardfmt)
    endif()
endfunction()

# speechshard_add_case(NAME COMMAND word... [LABELS label...] [TIMEOUT seconds])
#
# One more run of a C test, with other arguments. A word that is the FUNCTION of a test stands for
# the words that run the test.
function(speechshard_add_case name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "COMMAND;LABELS")
    set(_command "")
    foreach(_word IN LISTS arg_COMMAND)
        get_property(_words GLOBAL PROPERTY "SPEECHSHARD_COMMAND_OF_${_word}")
        if(_words)
            list(APPEND _command ${_words})
        else()
            list(APPEND _command "${_word}")
        endif()
    endforeach()
    add_test(NAME ${name} COMMAND ${_command} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    _speechshard_test_properties(${name} TIMEOUT ${arg_TIMEOUT} LABELS ${arg_LABELS} COMMAND ${_command})
endfunction()

# speechshard_add_script_test(NAME COMMAND word... [LABELS label...] [TIMEOUT seconds]
#                             [NEEDS target...])
#
# A test that is a script. A word that ends in .py or .sh is a file of this folder. If the first
# word ends in .py, Python runs the test. NEEDS: programs that the script finds in the build folder,
# besides the command and those that COMMAND names.
function(speechshard_add_script_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "COMMAND;LABELS;NEEDS")
    list(GET arg_COMMAND 0 _first)
    if(_first MATCHES "[.]py$")
        list(PREPEND arg_COMMAND ${Python3_EXECUTABLE})
    endif()
    list(TRANSFORM arg_COMMAND REPLACE "^([a-z0-9_-]+[.](py|sh))$" "${CMAKE_CURRENT_SOURCE_DIR}/\\1")
    add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    _speechshard_test_properties(${name} TIMEOUT ${arg_TIMEOUT} LABELS ${arg_LABELS} COMMAND ${arg_COMMAND}
        NEEDS speechshard ${arg_NEEDS})
endfunction()

# speechshard_add_test_tool(NAME SOURCES file... [LIBRARIES target...]): a program for test scripts.
function(speechshard_add_test_tool name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
    add_executable(${name} ${arg_SOURCES})
    _speechshard_common(${name})
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
endfunction()

# speechshard_add_fuzzer(NAME SOURCES file... [LIBRARIES target...])
#
# A program around LLVMFuzzerTestOneInput. With SPEECHSHARD_FUZZ it is a libFuzzer program; else it
# is linked with a driver that runs the files named in its arguments. The test of the same name
# replays the seeds in fuzz/corpus/NAME. LIBRARIES default to shardfmt_internal.
function(speechshard_add_fuzzer name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
    if(NOT arg_LIBRARIES)
        set(arg_LIBRARIES shardfmt_internal)
    endif()
    add_executable(${name} ${arg_SOURCES})
    _speechshard_common(${name})
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
    if(SPEECHSHARD_FUZZ)
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
        set_target_properties(${name} PROPERTIES SPEECHSHARD_IS_FUZZER ON)
        speechshard_add_coverage(${name})
        set_property(GLOBAL APPEND PROPERTY SPEECHSHARD_FUZZERS ${name})
    else()
        target_link_libraries(${name} PRIVATE fuzz_replay)
    endif()
    add_test(NAME ${name} COMMAND ${name} -runs=0 "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}"
        WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    _speechshard_test_properties(${name} LABELS fuzz COMMAND $<TARGET_FILE:${name}>)
endfunction()

# speechshard_add_bench(NAME SOURCES file... [LIBRARIES target...])
function(speechshard_add_bench name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
    add_executable(${name} ${arg_SOURCES})
    _speechshard_common(${name})
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} shardfmt_internal)
endfunction()
