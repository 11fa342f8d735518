/* split_names.h: operands DATASET[:SPLITS], their parts, and the files that decide about colons. */
#ifndef SPLIT_NAMES_H
#define SPLIT_NAMES_H

#include <errno.h>
#include <string.h>

#include "speechshard/io.h"

/* DATASET[:SPLITS], with colons in all possible positions. */
static const struct {
    const char *name, *path, *splits;
} split_names[] = {
    {"a.spsh",           "a.spsh",   NULL       },
    {"a.spsh:train",     "a.spsh",   "train"    },
    {"a.spsh:train,dev", "a.spsh",   "train,dev"},
    {"a.spsh:train:one", "a.spsh",   "train:one"},
    {"b:c.spsh",         "b:c.spsh", NULL       },
    {"b:c.spsh:dev",     "b:c.spsh", "dev"      },
    {"d:e",              "d:e",      NULL       },
    {"d:e:test",         "d:e",      "test"     },
    {"d:f",              "d",        "f"        },
    {"x:train",          "x:train",  NULL       },
    {"none",             "none",     NULL       },
    {"none:train",       "none",     "train"    },
    {"no:ne:train",      "no:ne",    "train"    },
};

static const char *const bad_split_names[] = {
    "",          ":train",      ":",     "a.spsh:",       "a.spsh:,a",
    "a.spsh:a,", "a.spsh:a,,b", "none:", "a.spsh:caf\xe9"};

#define SPLIT_NAMES     (sizeof(split_names) / sizeof(split_names[0]))
#define BAD_SPLIT_NAMES (sizeof(bad_split_names) / sizeof(bad_split_names[0]))

/* These files exist. */
static inline int split_names_stat(void *user, const char *path, struct stat *ret_stat)
{
    static const char *const paths[] = {"a.spsh", "b:c.spsh", "d:e", "d", "x:train"};
    (void)user;
    memset(ret_stat, 0, sizeof(*ret_stat));
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        if (strcmp(paths[i], path) == 0)
            return 0;
    }
    return -ENOENT;
}

#endif
