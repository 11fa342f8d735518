/* kaldi_command.h: find the audio file that a command in wav.scp reads, without running the
 * command. */
#ifndef SPSH_INGEST_KALDI_COMMAND_H
#define SPSH_INGEST_KALDI_COMMAND_H

#include "common/byte_builder.h"

/** A parsed wav.scp entry. */
typedef struct spsh__kaldi_source {
    spsh__builder path;    /* path of the audio file */
    spsh__builder channel; /* "1" or "2" if the command selects a channel, else empty */
    bool is_command;       /* the entry is a command: its input file is used, and its transform is
                              dropped */
    const char *problem;   /* NULL, or why the entry cannot be packed */
} spsh__kaldi_source;

/**
 * Parse an entry. Accepts only commands that decode a file or change its rate, bits, channels, or
 * level: `flac -c -d -s F |`, `sox F -t wav - |` with harmless effects, `ffmpeg -i F -f wav - |`,
 * and `cat F |`. Any other shell command is a problem.
 */
void spsh__kaldi_source_parse(spsh_bytes entry, spsh__kaldi_source *source);
void spsh__kaldi_source_free(spsh__kaldi_source *source);

#endif
