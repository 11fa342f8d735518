/* layouts.h: the layouts in the table of layouts.c, and functions that their probes share. */
#ifndef SPSH_INGEST_LAYOUTS_H
#define SPSH_INGEST_LAYOUTS_H

#include "ingest/scan/probe.h"

extern const spsh_layout spsh__layout_mdc;
extern const spsh_layout spsh__layout_mls;
extern const spsh_layout spsh__layout_mls_flac;
extern const spsh_layout spsh__layout_mls_opus;
extern const spsh_layout spsh__layout_kaldi;
extern const spsh_layout spsh__layout_audiofolder;
extern const spsh_layout spsh__layout_common_voice_spontaneous;
extern const spsh_layout spsh__layout_common_voice;
extern const spsh_layout spsh__layout_common_voice_2017;
extern const spsh_layout spsh__layout_librispeech;
extern const spsh_layout spsh__layout_librilight;
extern const spsh_layout spsh__layout_voxpopuli;
extern const spsh_layout spsh__layout_peoples_speech;
extern const spsh_layout spsh__layout_wenet;
extern const spsh_layout spsh__layout_nemo;
extern const spsh_layout spsh__layout_nemo_tarred;
extern const spsh_layout spsh__layout_wenet_shards;
extern const spsh_layout spsh__layout_webdataset;
extern const spsh_layout spsh__layout_lhotse;
extern const spsh_layout spsh__layout_lhotse_shar;
extern const spsh_layout spsh__layout_gigaspeech;
extern const spsh_layout spsh__layout_ljspeech;
extern const spsh_layout spsh__layout_table;
extern const spsh_layout spsh__layout_table_raw;
extern const spsh_layout spsh__layout_table_rfc;
extern const spsh_layout spsh__layout_folder;

/** All layouts in probing order, NULL-terminated. The best tier that matches wins. */
extern const spsh_layout *const spsh__layouts[];

/** Return the layout with that name, or NULL. */
const spsh_layout *spsh__layout_find(const char *name);

/** Scan a view with a layout. Sets the variant in a copy of options. */
SPSH_NODISCARD spsh_status spsh__layout_scan(const spsh_layout *layout,
                                             const spsh_ingest_options *options,
                                             const spsh_ingest_sink *sink, spsh_error *err);

/**
 * Probe a view with every layout. The best tier wins.
 *
 * @return SPSH_OK; SPSH_E_NOT_FOUND if nothing matches, with a message about the files found and
 * what to try; SPSH_E_INVALID_ARG if two layouts of one tier match, with a message that names both.
 */
spsh_status spsh__layout_detect(const spsh__view *view, const spsh_layout **ret_layout,
                                spsh_layout_probe *ret_probe, spsh_error *err);

#define SPSH__LAYOUT_MATCHES_MAX ((size_t)4)

/** The matching layouts of the best tier. Matches that exceed the array are dropped. */
typedef struct spsh__layout_match {
    const spsh_layout *layouts[SPSH__LAYOUT_MATCHES_MAX];
    spsh_layout_probe probes[SPSH__LAYOUT_MATCHES_MAX];
    size_t count;
} spsh__layout_match;

/* Probe a view with the layouts up to a tier. */
SPSH_NODISCARD spsh_status spsh__layout_match_view(const spsh__view *view,
                                                   spsh_layout_tier tier_max,
                                                   spsh__layout_match *ret_match, spsh_error *err);

/* Return SPSH_E_INVALID_ARG. The message names the first two layouts of a match and how to choose
 * one. */
SPSH_NODISCARD spsh_status spsh__layout_refuse(const spsh__view *view,
                                               const spsh__layout_match *match, spsh_error *err);

#endif
