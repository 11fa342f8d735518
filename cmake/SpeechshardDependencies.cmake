# Every outside library, once, as an imported target PkgConfig::NAME. The specification is kept in
# SPEECHSHARD_DEPENDENCY_NAME: the installed CMake package and the .pc file repeat it.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

macro(speechshard_find_dependency name specification)
    set(SPEECHSHARD_DEPENDENCY_${name} "${specification}")
    pkg_check_modules(${name} REQUIRED IMPORTED_TARGET "${specification}")
endmacro()

speechshard_find_dependency(FLAC "flac>=1.3")
speechshard_find_dependency(JANSSON "jansson>=2.13")
speechshard_find_dependency(LIBARCHIVE "libarchive>=3.6")
speechshard_find_dependency(LIBLZ4 "liblz4>=1.9")
speechshard_find_dependency(LIBPNG "libpng>=1.6.37")
speechshard_find_dependency(LIBURING "liburing>=2.2")
speechshard_find_dependency(LIBUTF8PROC "libutf8proc>=2.6")
speechshard_find_dependency(LIBXXHASH "libxxhash>=0.8.0")
speechshard_find_dependency(MPG123 "libmpg123>=1.26")
speechshard_find_dependency(OGG "ogg>=1.3")
speechshard_find_dependency(SNDFILE "sndfile>=1.1")
speechshard_find_dependency(SOXR "soxr>=0.1.3")
speechshard_find_dependency(VORBIS "vorbis>=1.3")
speechshard_find_dependency(YAML "yaml-0.1>=0.2.5")
