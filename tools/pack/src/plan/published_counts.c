/* published_counts.c: see published_counts.h. */
#include "published_counts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/file_names.h"
#include "common/human.h"

/* Utterances as the authors of the releases state them, in their README files and cards, or as they
 * are listed in the files of the release:
 *
 *     MLS               the table of splits of the data set's card; english train: the lines of its
 *                       transcripts.txt. The count of english test was not found.
 *     LibriSpeech       lines of the .trans.txt files of each subset
 *     People's Speech   rows stated on the card of the release as parquet; clean_sa and dirty were
 *                       not found
 *     Common Voice      clips of a locale, in all of its tables, by the statistics of the release;
 *                       of the largest locales
 */
/* clang-format off */
const spsh__published spsh__published_parts[] = {
    {"mls", "MLS", "english train",    "mls/english",    "train", 10808037},
    {"mls", "MLS", "english dev",      "mls/english",    "dev",   3807},
    {"mls", "MLS", "german train",     "mls/german",     "train", 469942},
    {"mls", "MLS", "german dev",       "mls/german",     "dev",   3469},
    {"mls", "MLS", "german test",      "mls/german",     "test",  3394},
    {"mls", "MLS", "dutch train",      "mls/dutch",      "train", 374287},
    {"mls", "MLS", "dutch dev",        "mls/dutch",      "dev",   3095},
    {"mls", "MLS", "dutch test",       "mls/dutch",      "test",  3075},
    {"mls", "MLS", "french train",     "mls/french",     "train", 258213},
    {"mls", "MLS", "french dev",       "mls/french",     "dev",   2416},
    {"mls", "MLS", "french test",      "mls/french",     "test",  2426},
    {"mls", "MLS", "spanish train",    "mls/spanish",    "train", 220701},
    {"mls", "MLS", "spanish dev",      "mls/spanish",    "dev",   2408},
    {"mls", "MLS", "spanish test",     "mls/spanish",    "test",  2385},
    {"mls", "MLS", "italian train",    "mls/italian",    "train", 59623},
    {"mls", "MLS", "italian dev",      "mls/italian",    "dev",   1248},
    {"mls", "MLS", "italian test",     "mls/italian",    "test",  1262},
    {"mls", "MLS", "portuguese train", "mls/portuguese", "train", 37533},
    {"mls", "MLS", "portuguese dev",   "mls/portuguese", "dev",   826},
    {"mls", "MLS", "portuguese test",  "mls/portuguese", "test",  871},
    {"mls", "MLS", "polish train",     "mls/polish",     "train", 25043},
    {"mls", "MLS", "polish dev",       "mls/polish",     "dev",   512},
    {"mls", "MLS", "polish test",      "mls/polish",     "test",  520},
    {"librispeech", "LibriSpeech", "train-clean-100", NULL, NULL, 28539},
    {"librispeech", "LibriSpeech", "train-clean-360", NULL, NULL, 104014},
    {"librispeech", "LibriSpeech", "train-other-500", NULL, NULL, 148688},
    {"librispeech", "LibriSpeech", "dev-clean",       NULL, NULL, 2703},
    {"librispeech", "LibriSpeech", "dev-other",       NULL, NULL, 2864},
    {"librispeech", "LibriSpeech", "test-clean",      NULL, NULL, 2620},
    {"librispeech", "LibriSpeech", "test-other",      NULL, NULL, 2939},
    {"peoples-speech", "The People's Speech", "clean",      "ps/clean",      "train",      1501271},
    {"peoples-speech", "The People's Speech", "dirty_sa",   "ps/dirty_sa",   "train",      548014},
    {"peoples-speech", "The People's Speech", "validation", "ps/validation", "validation", 18622},
    {"peoples-speech", "The People's Speech", "test",       "ps/test",       "test",       34898},
    {"common-voice", "Common Voice", "25.0 en", NULL, NULL, 2574404},
    {"common-voice", "Common Voice", "25.0 rw", NULL, NULL, 1714228},
    {"common-voice", "Common Voice", "25.0 de", NULL, NULL, 1015951},
    {"common-voice", "Common Voice", "25.0 fr", NULL, NULL, 864728},
};
/* clang-format on */

_Static_assert(sizeof(spsh__published_parts) / sizeof(spsh__published_parts[0]) <=
                   SPSH__PUBLISHED_MAX,
               "every part has a counter");

size_t spsh__published_count(void)
{
    return sizeof(spsh__published_parts) / sizeof(spsh__published_parts[0]);
}

static bool reads(const char *layout, size_t part)
{
    const char *name = spsh__published_parts[part].layout;
    return strncmp(layout, name, strlen(name)) == 0;
}

void spsh__published_begin(spsh__published_found *found, const char *layout)
{
    const size_t count = spsh__published_count();
    found->first = 0;
    while (found->first < count && !reads(layout, found->first))
        found->first++;
    found->end = found->first;
    while (found->end < count && reads(layout, found->end))
        found->end++;
    found->last = found->first;
}

static bool is_of(size_t part, const spsh_ingest_item *item)
{
    const spsh__published *p = &spsh__published_parts[part];
    if (p->domain == NULL)
        return spsh__bytes_equal(item->subset, spsh__bytes_of(p->part));
    return spsh__bytes_equal(item->layout_domain, spsh__bytes_of(p->domain)) &&
           spsh__bytes_equal(item->split, spsh__bytes_of(p->split));
}

void spsh__published_add(spsh__published_found *found, const spsh_ingest_item *item)
{
    size_t part = found->last;
    if (found->first == found->end)
        return;
    if (!is_of(part, item)) {
        part = found->first;
        while (part < found->end && !is_of(part, item))
            part++;
    }
    if (part == found->end)
        return;
    found->last = part;
    found->utterances[part]++;
}

bool spsh__published_differs(size_t part, uint64_t found)
{
    const uint64_t all = spsh__published_parts[part].utterances;
    return found != all && found >= all / 100 * SPSH__PUBLISHED_NOTE_PERCENT;
}

const char *spsh__published_line(size_t part, uint64_t found, char dst[SPSH__PUBLISHED_LINE_BYTES])
{
    const spsh__published *p = &spsh__published_parts[part];
    char all_text[SPSH_HUMAN_BYTES];
    char found_text[SPSH_HUMAN_BYTES];
    uint64_t percent = (found * 200 + p->utterances) / (2 * p->utterances);
    if (percent == 100) /* 100 % is only for the exact number */
        percent = found < p->utterances ? 99 : found > p->utterances ? 101 : 100;
    (void)snprintf(dst, SPSH__PUBLISHED_LINE_BYTES,
                   "%s %s: %s of %s published utterances found (%" PRIu64 " %%)", p->corpus,
                   p->part, spsh__human_count(found, found_text),
                   spsh__human_count(p->utterances, all_text), percent);
    return dst;
}

void spsh__published_append(spsh__builder *out, const spsh__published_found *found)
{
    for (size_t i = 0; i < spsh__published_count(); i++) {
        const uint64_t words[] = {i, found->utterances[i]};
        if (found->utterances[i] != 0)
            spsh__journal_numbers(out, "published", words, 2);
    }
}

bool spsh__published_take(spsh__journal *journal, spsh__published_found *ret_found)
{
    const char *rest = NULL;
    while (spsh__journal_take(journal, "published", &rest)) {
        uint64_t w[2];
        if (!spsh__journal_parse(rest, w, 2) || w[0] >= spsh__published_count())
            return false;
        ret_found->utterances[w[0]] = w[1];
    }
    return true;
}
