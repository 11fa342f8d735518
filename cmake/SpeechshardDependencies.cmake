# Every outside library, once, as an imported target PkgConfig::NAME. The installed package includes
# this file too when the libraries are static, so that a consumer links what they need.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
foreach(_speechshard_dependency IN ITEMS
        LIBURING=liburing>=2.2
        LIBXXHASH=libxxhash>=0.8.0
        LIBLZ4=liblz4>=1.9
        SNDFILE=sndfile>=1.1
        FLAC=flac>=1.3
        SOXR=soxr>=0.1.3
        JANSSON=jansson>=2.13
        UTF8PROC=libutf8proc>=2.6
        LIBARCHIVE=libarchive>=3.6)
    string(REGEX MATCH "^([A-Z0-9]+)=(.*)$" _ "${_speechshard_dependency}")
    pkg_check_modules(${CMAKE_MATCH_1} REQUIRED IMPORTED_TARGET GLOBAL "${CMAKE_MATCH_2}")
endforeach()
unset(_speechshard_dependency)
