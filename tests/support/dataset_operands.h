/* dataset_operands.h: operands DATASET[:SPLITS] and their parts. A colon separates splits only if
 * the path before it exists, so the files that exist are listed, too. */
#ifndef DATASET_OPERANDS_H
#define DATASET_OPERANDS_H

#include <errno.h>
#include <string.h>

#include "speechshard/io.h"

/* DATASET[:SPLITS], with colons in all possible positions. */
static const struct {
    const char *name, *path, *splits;
} dataset_operands[] = {
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

static const char *const bad_dataset_operands[] = {
    "",          ":train",      ":",     "a.spsh:",       "a.spsh:,a",
    "a.spsh:a,", "a.spsh:a,,b", "none:", "a.spsh:caf\xe9"};

#define DATASET_OPERANDS     (sizeof(dataset_operands) / sizeof(dataset_operands[0]))
#define BAD_DATASET_OPERANDS (sizeof(bad_dataset_operands) / sizeof(bad_dataset_operands[0]))

/* These files exist. */
static inline int dataset_operands_stat(void *user, const char *path, struct stat *ret_stat)
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
