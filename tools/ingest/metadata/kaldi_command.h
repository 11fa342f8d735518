/* kaldi_command.h: what a command in wav.scp reads, without ever running it. */
#ifndef SPSH_INGEST_KALDI_COMMAND_H
#define SPSH_INGEST_KALDI_COMMAND_H

#include "common/byte_builder.h"

/** What a wav.scp entry stands for. */
typedef struct spsh__kaldi_source {
    spsh__builder path;    /* of the file that holds the audio */
    spsh__builder channel; /* "1", "2" when the command picks one, else empty */
    bool is_command;       /* the file is what the command reads, its transform is dropped */
    const char *problem;   /* NULL, or why the entry cannot be packed */
} spsh__kaldi_source;

/**
 * Take an entry apart. Only forms that decode a file or change its rate, bits, channels or level
 * are taken: `flac -c -d -s F |`, `sox F -t wav - |` with harmless effects, `ffmpeg -i F -f wav -
 * |` and `cat F |`. Whatever else a shell could make of it is a problem.
 */
void spsh__kaldi_source_parse(spsh_bytes entry, spsh__kaldi_source *source);
void spsh__kaldi_source_free(spsh__kaldi_source *source);

#endif
