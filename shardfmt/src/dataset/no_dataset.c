/* no_dataset.c: a newcomer gives a recording, a table, or the folder of a run where a dataset is
 * needed. The first bytes of a file and the names in a folder tell these apart, which the failure
 * to open manifest.spsh does not.
 */
#include "no_dataset.h"

#include <fcntl.h>
#include <stdio.h>

#include "format/container.h"
#include "io/io_internal.h"
#include "speechshard/audio.h"
#include "speechshard/inside.h"

enum { HEAD_BYTES = 4096 };

bool spsh__dataset_has(const spsh_io *io, const spsh_allocator *allocator, const char *dataset_path,
                       const char *name)
{
    struct stat info;
    char *path = spsh__path_join(allocator, dataset_path, name);
    memset(&info, 0, sizeof(info));
    const bool found = path != NULL && io->stat_fn(io->user, path, &info) == 0;
    spsh__free(allocator, path);
    return found;
}

/* Read the first bytes of a regular file. false: it is not a regular file, or cannot be read. */
static bool read_head(const spsh_io *io, const char *path, uint8_t head[HEAD_BYTES],
                      size_t *ret_bytes)
{
    struct stat info;
    /* Without O_NONBLOCK, a named pipe would wait for a writer. */
    const int fd = io->open_fn(io->user, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0)
        return false;
    memset(&info, 0, sizeof(info));
    int64_t bytes = -1;
    if (io->fstat_fn(io->user, fd, &info) == 0 && S_ISREG(info.st_mode))
        bytes = io->pread_fn(io->user, fd, head, HEAD_BYTES, 0);
    (void)io->close_fn(io->user, fd);
    *ret_bytes = bytes > 0 ? (size_t)bytes : 0;
    return bytes >= 0;
}

/* Return "a WAV file", or with "an" before a name that starts with a spoken vowel. */
static const char *describe(spsh_codec codec)
{
    switch (codec) {
    case SPSH_CODEC_WAV: return "a WAV file";
    case SPSH_CODEC_FLAC: return "a FLAC file";
    case SPSH_CODEC_MP3: return "an MP3 file";
    case SPSH_CODEC_OPUS: return "an Opus file";
    case SPSH_CODEC_VORBIS: return "a Vorbis file";
    case SPSH_CODEC_GSM: return "a GSM file";
    default: return "a file";
    }
}

spsh_status spsh__no_dataset(const spsh_io *io, const spsh_allocator *allocator,
                             const char *dataset_path, spsh_status rc, spsh_error *err)
{
    uint8_t head[HEAD_BYTES];
    size_t bytes = 0;
    if (read_head(io, dataset_path, head, &bytes)) {
        if (spsh__header_is_ours(head, bytes))
            return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                             "%s: a file inside a dataset; give the folder of the dataset instead",
                             dataset_path);
        return SPSH_FAIL(err, SPSH_E_NOT_SPEECHSHARD,
                         "%s: %s, not a dataset; make a dataset of the folder or table that has "
                         "it: speechshard pack FOLDER -o NAME.spsh",
                         dataset_path, describe(spsh_audio_sniff(head, bytes, dataset_path)));
    }
    if (rc != SPSH_E_NOT_FOUND)
        return rc;
    const char *what = "no manifest.spsh and no shards: not a dataset; make a dataset of a corpus: "
                       "speechshard pack FOLDER -o NAME.spsh";
    if (!spsh__dataset_has(io, allocator, dataset_path, "."))
        what = "no such directory";
    else if (spsh__dataset_has(io, allocator, dataset_path, "shards"))
        what = "no manifest.spsh: pack has not finished; run it again to continue, or run "
               "speechshard merge after its parts";
    else if (spsh__dataset_has(io, allocator, dataset_path, "metrics.jsonl"))
        what = "a training run, not a dataset; speechshard report describes it";
    return SPSH_FAIL_OS(err, rc, err->os_errno, "%s: %s", dataset_path, what);
}
