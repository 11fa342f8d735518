# The plug-in libspeechshard-cuda.so, from the .cu files of all parts and their .c files that call
# libraries of CUDA. Custom commands call nvcc: CUDA is not a language of the project, so nothing
# changes if it is missing. CUDA's runtime is linked statically.
set(SPEECHSHARD_CUDA AUTO CACHE STRING "Build the CUDA plug-in: AUTO (where nvcc works), ON or OFF")
set_property(CACHE SPEECHSHARD_CUDA PROPERTY STRINGS AUTO ON OFF)
set(SPEECHSHARD_CUDA_ARCHITECTURES "80;86;89;90;100" CACHE STRING
    "Compute capabilities with code of their own; later ones compile PTX of the last when they load it")

# Set SPEECHSHARD_CUDA_REASON to the reason why the plug-in is not built, or to an empty string.
function(_speechshard_find_nvcc)
    set(SPEECHSHARD_CUDA_REASON "" PARENT_SCOPE)
    if(SPEECHSHARD_CUDA STREQUAL "AUTO" AND (SPEECHSHARD_SANITIZE OR SPEECHSHARD_FUZZ))
        set(SPEECHSHARD_CUDA_REASON "sanitizers do not see it" PARENT_SCOPE)
        return()
    endif()
    find_program(SPEECHSHARD_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
    if(NOT SPEECHSHARD_NVCC)
        set(SPEECHSHARD_CUDA_REASON "nvcc was not found" PARENT_SCOPE)
        return()
    endif()
    execute_process(COMMAND ${SPEECHSHARD_NVCC} --version OUTPUT_VARIABLE _text ERROR_QUIET)
    if(NOT _text MATCHES "release ([0-9]+\\.[0-9]+)" OR CMAKE_MATCH_1 VERSION_LESS 12.8)
        set(SPEECHSHARD_CUDA_REASON "${SPEECHSHARD_NVCC} is older than 12.8" PARENT_SCOPE)
        return()
    endif()
    # nvcc needs a host compiler that it supports. The check runs once, because its result is
    # cached.
    if(NOT DEFINED CACHE{SPEECHSHARD_NVCC_WORKS})
        set(_try "${PROJECT_BINARY_DIR}/CMakeFiles/speechshard-nvcc")
        file(WRITE "${_try}.cu" "#include <cuda_runtime.h>\n__global__ void f(int *x) { *x = 1; }\n")
        execute_process(COMMAND ${SPEECHSHARD_NVCC} -std=c++17 -arch=sm_80 -c "${_try}.cu" -o "${_try}.o"
            RESULT_VARIABLE _result OUTPUT_FILE "${_try}.log" ERROR_FILE "${_try}.log")
        if(_result EQUAL 0)
            set(SPEECHSHARD_NVCC_WORKS ON CACHE INTERNAL "nvcc compiles")
        else()
            set(SPEECHSHARD_CUDA_REASON "${SPEECHSHARD_NVCC} does not work (${_try}.log)" PARENT_SCOPE)
            return()
        endif()
    endif()
endfunction()

if(SPEECHSHARD_CUDA STREQUAL "AUTO" OR SPEECHSHARD_CUDA)
    _speechshard_find_nvcc()
    if(SPEECHSHARD_CUDA_REASON AND NOT SPEECHSHARD_CUDA STREQUAL "AUTO")
        message(FATAL_ERROR "SPEECHSHARD_CUDA is ON, and ${SPEECHSHARD_CUDA_REASON}")
    endif()
else()
    set(SPEECHSHARD_CUDA_REASON "SPEECHSHARD_CUDA is OFF")
endif()
if(SPEECHSHARD_CUDA_REASON)
    message(STATUS "The CUDA plug-in is not built: ${SPEECHSHARD_CUDA_REASON}")
else()
    message(STATUS "The CUDA plug-in is built by ${SPEECHSHARD_NVCC}")
endif()

# speechshard_cuda_headers(RESULT HEADER...): set RESULT to whether nvcc finds the headers. For
# parts that need more than CUDA's runtime. If no plug-in is built, RESULT is OFF.
function(speechshard_cuda_headers result)
    if(SPEECHSHARD_CUDA_REASON)
        set(${result} OFF PARENT_SCOPE)
        return()
    endif()
    if(NOT DEFINED CACHE{SPEECHSHARD_NVCC_${result}})
        set(_try "${PROJECT_BINARY_DIR}/CMakeFiles/speechshard-${result}.cu")
        list(TRANSFORM ARGN REPLACE "(.+)" "#include <\\1>\n" OUTPUT_VARIABLE _text)
        string(CONCAT _text ${_text})
        file(WRITE "${_try}" "${_text}")
        execute_process(COMMAND ${SPEECHSHARD_NVCC} -std=c++17 -E "${_try}" -o "${_try}.i"
            RESULT_VARIABLE _code OUTPUT_QUIET ERROR_QUIET)
        if(NOT _code EQUAL 0)
            set(${result} OFF PARENT_SCOPE) # not cached: the headers may be installed later
            return()
        endif()
        set(SPEECHSHARD_NVCC_${result} ON CACHE INTERNAL "nvcc finds ${ARGN}")
    endif()
    set(${result} ON PARENT_SCOPE)
endfunction()

# speechshard_cuda_sources([EXACT] FILE...): add sources of a part to the plug-in: .cu files for
# nvcc, .c files for the C compiler. They may include the part's include/ and src/ folders and the
# public headers of shardfmt. EXACT: nvcc fuses no multiplication with an addition, so that kernels
# round as the host does (docs/gpu-internals.md).
function(speechshard_cuda_sources)
    cmake_parse_arguments(PARSE_ARGV 0 _cuda EXACT "" "")
    list(TRANSFORM _cuda_UNPARSED_ARGUMENTS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" OUTPUT_VARIABLE _sources)
    set_property(GLOBAL APPEND PROPERTY SPEECHSHARD_CUDA_SOURCES ${_sources})
    if(_cuda_EXACT)
        set_property(GLOBAL APPEND PROPERTY SPEECHSHARD_CUDA_EXACT_SOURCES ${_sources})
    endif()
endfunction()

# Compile one source, and add its object to the list `objects` of the caller.
function(_speechshard_cuda_object source)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE _name)
    string(REGEX MATCH "^[^/]+" _part "${_name}")
    set(_object "${PROJECT_BINARY_DIR}/cuda/${_name}.o")
    get_filename_component(_folder "${_object}" DIRECTORY)
    file(MAKE_DIRECTORY "${_folder}")
    set(_flags -std=c++17 -O3 -lineinfo -Xcompiler
        -fPIC,-fvisibility=hidden,-fno-exceptions,-Wall,-Wextra,-Wno-missing-field-initializers)
    get_property(_exact GLOBAL PROPERTY SPEECHSHARD_CUDA_EXACT_SOURCES)
    if(source IN_LIST _exact)
        list(APPEND _flags --fmad=false)
    endif()
    if(CMAKE_COMPILE_WARNING_AS_ERROR)
        list(APPEND _flags -Werror all-warnings)
    endif()
    foreach(_architecture IN LISTS SPEECHSHARD_CUDA_ARCHITECTURES)
        list(APPEND _flags -gencode arch=compute_${_architecture},code=sm_${_architecture})
        set(_last ${_architecture})
    endforeach()
    list(APPEND _flags -gencode arch=compute_${_last},code=compute_${_last})
    add_custom_command(OUTPUT "${_object}"
        COMMAND ${SPEECHSHARD_NVCC} ${_flags} -I "${PROJECT_SOURCE_DIR}/shardfmt/include"
            -I "${PROJECT_SOURCE_DIR}/${_part}/include" -I "${PROJECT_SOURCE_DIR}/${_part}/src"
            -MD -MF "${_object}.d" -c "${source}" -o "${_object}"
        DEPENDS "${source}" DEPFILE "${_object}.d" COMMENT "nvcc ${_name}" VERBATIM)
    list(APPEND objects "${_object}")
    set(objects "${objects}" PARENT_SCOPE)
endfunction()

# Add the plug-in as the target speechshard_cuda, in the top of the build folder. Call it after all
# parts have added their sources.
function(speechshard_add_cuda_plugin)
    if(SPEECHSHARD_CUDA_REASON)
        return()
    endif()
    get_property(_sources GLOBAL PROPERTY SPEECHSHARD_CUDA_SOURCES)
    set(objects "")
    set(_c_sources ${_sources})
    list(FILTER _c_sources INCLUDE REGEX "\\.c$")
    list(FILTER _sources EXCLUDE REGEX "\\.c$")
    foreach(_source IN LISTS _sources)
        _speechshard_cuda_object("${_source}")
    endforeach()
    get_filename_component(_bin "${SPEECHSHARD_NVCC}" REALPATH)
    get_filename_component(_root "${_bin}/../.." ABSOLUTE)
    find_library(SPEECHSHARD_CUDART_STATIC cudart_static HINTS "${_root}" PATH_SUFFIXES lib64 lib REQUIRED)
    set_property(GLOBAL PROPERTY SPEECHSHARD_CUDA_OBJECTS ${objects})
    add_library(speechshard_cuda MODULE ${objects} ${_c_sources})
    _speechshard_common(speechshard_cuda)
    foreach(_source IN LISTS _c_sources)
        cmake_path(RELATIVE_PATH _source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE _name)
        string(REGEX MATCH "^[^/]+" _part "${_name}")
        set_property(SOURCE "${_source}" PROPERTY INCLUDE_DIRECTORIES "${PROJECT_SOURCE_DIR}/shardfmt/include"
            "${PROJECT_SOURCE_DIR}/${_part}/include" "${PROJECT_SOURCE_DIR}/${_part}/src")
    endforeach()
    set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    set_target_properties(speechshard_cuda PROPERTIES
        OUTPUT_NAME speechshard-cuda LINKER_LANGUAGE C LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
    # supc++: the static part of the C++ runtime that the host code of nvcc needs.
    target_link_libraries(speechshard_cuda PRIVATE ${SPEECHSHARD_CUDART_STATIC} supc++ Threads::Threads ${CMAKE_DL_LIBS} rt)
    # Allow no undefined symbols, and hide the symbols of CUDA's runtime.
    target_link_options(speechshard_cuda PRIVATE LINKER:-z,defs LINKER:--exclude-libs,ALL
        "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/speechshard.map")
    install(TARGETS speechshard_cuda LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cuda)
endfunction()
