# The plug-in libspeechshard-ffmpeg.so, with which `pack --decoder ffmpeg` decodes more kinds of
# audio. Nothing else links FFmpeg's libraries, and nothing changes if they are missing.
set(SPEECHSHARD_FFMPEG AUTO CACHE STRING "Build the FFmpeg plug-in: AUTO (where its libraries are), ON or OFF")
set_property(CACHE SPEECHSHARD_FFMPEG PROPERTY STRINGS AUTO ON OFF)

# The target speechshard_ffmpeg, next to the CUDA plug-in in the top of the build folder.
function(speechshard_add_ffmpeg_plugin)
    if(NOT SPEECHSHARD_FFMPEG)
        message(STATUS "The FFmpeg plug-in is not built: SPEECHSHARD_FFMPEG is OFF")
        return()
    endif()
    if(SPEECHSHARD_FFMPEG STREQUAL "AUTO" AND (SPEECHSHARD_SANITIZE OR SPEECHSHARD_FUZZ))
        message(STATUS "The FFmpeg plug-in is not built: sanitizers do not see its libraries")
        return()
    endif()
    # libavformat 59 belongs to FFmpeg 5.1, the first version with AVChannelLayout.
    pkg_check_modules(FFMPEG IMPORTED_TARGET libavformat>=59.27 libavcodec>=59.37 libavutil>=57.28)
    if(NOT FFMPEG_FOUND)
        if(NOT SPEECHSHARD_FFMPEG STREQUAL "AUTO")
            message(FATAL_ERROR "SPEECHSHARD_FFMPEG is ON, and FFmpeg's libraries were not found (libavformat-dev libavcodec-dev)")
        endif()
        message(STATUS "The FFmpeg plug-in is not built: its libraries were not found")
        return()
    endif()
    add_library(speechshard_ffmpeg MODULE ${PROJECT_SOURCE_DIR}/shardfmt/src/ffmpeg/ffmpeg_claim.c
        ${PROJECT_SOURCE_DIR}/shardfmt/src/ffmpeg/ffmpeg_plugin.c)
    _speechshard_common(speechshard_ffmpeg)
    target_include_directories(speechshard_ffmpeg PRIVATE ${PROJECT_SOURCE_DIR}/shardfmt/include)
    set_target_properties(speechshard_ffmpeg PROPERTIES
        OUTPUT_NAME speechshard-ffmpeg LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
    target_link_libraries(speechshard_ffmpeg PRIVATE PkgConfig::FFMPEG Threads::Threads m)
    target_link_options(speechshard_ffmpeg PRIVATE LINKER:-z,defs
        "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/speechshard.map")
    install(TARGETS speechshard_ffmpeg LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ffmpeg)
endfunction()
