/* launch_out.c: the files of tools/launch name an example of a corpus and of a dataset. These two
 * paths are replaced; everything else is printed as it is.
 */
#include "launch_out.h"

#include <stdlib.h>

#include "common/byte_builder.h"
#include "common/json_text.h"
#include "common/page.h"

static const char example_corpus[] = "/data/corpus", example_dataset[] = "/data/corpus.spsh";

/* Options of the printing command, which are not options of a part. */
static const char *const other_options[] = {
    "output", "print-launch", "part", "plan-only", "merge", "json", "quiet", "verbose", NULL};

/* Append a word for a shell, or for a list in YAML, of which JSON is a part. */
static void append_word(spsh__builder *words, bool is_yaml, const char *word)
{
    if (!is_yaml) {
        spsh__page_word(words, word);
        return;
    }
    spsh__builder_append_text(words, words->size_bytes > 0 ? ", " : "");
    spsh__json_string(words, (spsh_bytes){(const uint8_t *)word, strlen(word)});
}

static bool is_other(const spsh_cli_option *option)
{
    const char *const *name = other_options;
    while (*name != NULL && strcmp(*name, option->long_name) != 0)
        name++;
    return *name != NULL;
}

static void append_options(spsh__builder *words, bool is_yaml)
{
    const spsh_cli_given *given = NULL;
    const size_t count = spsh__cli_given_options(&given);
    for (size_t i = 0; i < count; i++) {
        spsh__builder word = {0};
        if (is_other(given[i].option))
            continue;
        spsh__builder_append_text(&word, "--");
        spsh__builder_append_text(&word, given[i].option->long_name);
        if (given[i].text != NULL) {
            spsh__builder_append_text(&word, "=");
            spsh__builder_append_text(&word, given[i].text);
        }
        const char *text = spsh__builder_text(&word);
        if (text != NULL)
            append_word(words, is_yaml, text);
        words->failed = words->failed || text == NULL;
        spsh__builder_free(&word);
    }
}

static void print_line(const char *line, const char *dataset, const char *corpus)
{
    const char *at = strstr(line, example_corpus);
    for (; at != NULL; at = strstr(line, example_corpus)) {
        const bool is_dataset = strncmp(at, example_dataset, sizeof(example_dataset) - 1) == 0;
        (void)printf("%.*s%s", (int)(at - line), line, is_dataset ? dataset : corpus);
        line = at + (is_dataset ? sizeof(example_dataset) : sizeof(example_corpus)) - 1;
    }
    (void)printf("%s\n", line);
}

int spsh__launch_print(size_t which, const spsh_cli_args *corpora, const char *output)
{
    const spsh__launch_file *file = &spsh__launch_files[which];
    const bool is_yaml = strcmp(file->launcher, "kubernetes") == 0;
    spsh__builder dataset = {0}, words = {0};
    if (strcmp(corpora->operands[0], "-") == 0)
        return spsh__cli_usage("pack", "--print-launch: several machines cannot share standard "
                                       "input; name the archive");
    append_word(&dataset, is_yaml, output);
    for (int i = 0; i < corpora->operand_count; i++)
        append_word(&words, is_yaml, corpora->operands[i]);
    append_options(&words, is_yaml);
    const char *dataset_text = spsh__builder_text(&dataset);
    const char *corpus_text = spsh__builder_text(&words);
    int rc = SPSH_EXIT_DONE;
    if (dataset_text == NULL || corpus_text == NULL)
        rc = spsh__cli_fail_memory();
    for (const char *const *line = file->lines; rc == SPSH_EXIT_DONE && *line != NULL; line++)
        print_line(*line, dataset_text, corpus_text);
    spsh__builder_free(&dataset);
    spsh__builder_free(&words);
    return spsh__cli_finish(rc);
}
