/* clusters.c: turn the decided graph of copies into clusters with members. decide.c decides. */
#include "clusters.h"

#include <stdlib.h>
#include <string.h>

#include "copy_graph.h"
#include "speechshard/inside.h"

const char *spsh_copy_decision_text(spsh_copy_decision decision)
{
    static const char *const texts[SPSH_DECISION_COUNT] = {"keep", "drop", "tag", "protected",
                                                           "unproven"};
    return decision < SPSH_DECISION_COUNT ? texts[decision] : "unknown";
}

static int compare_ordinals(const void *left, const void *right)
{
    const spsh__member *l = left;
    const spsh__member *r = right;
    return (l->ordinal > r->ordinal) - (l->ordinal < r->ordinal);
}

static void add_member(const spsh__copy_graph *g, size_t at, spsh__clusters *result)
{
    const spsh__copy_node *n = &g->nodes[at];
    spsh__member *m = &result->members[result->member_count++];
    *m = (spsh__member){n->quality.ordinal, n->decision, n->match, {0}};
    memcpy(m->reason, n->reason, sizeof(m->reason));
}

static void add_cluster(const spsh__copy_graph *g, size_t kept, spsh__clusters *result)
{
    const spsh__copy_node *k = &g->nodes[kept];
    spsh_copy_cluster *cluster = &result->clusters[result->cluster_count++];
    const uint64_t first = result->member_count;
    uint64_t text = k->quality.text_hash;
    *cluster = (spsh_copy_cluster){.first_member = first};
    add_member(g, kept, result);
    for (size_t c = k->first_child; c != SPSH__COPY_NONE; c = g->nodes[c].next_child) {
        const spsh__copy_node *n = &g->nodes[c];
        add_member(g, c, result);
        if (n->decision == SPSH_DECISION_DROP) {
            cluster->saved_seconds += n->quality.seconds;
            cluster->saved_bytes += n->quality.bytes;
        }
        if (n->quality.text_hash == 0 || n->group != k->group)
            continue;
        cluster->texts_differ =
            cluster->texts_differ || (text != 0 && text != n->quality.text_hash);
        text = n->quality.text_hash;
    }
    cluster->member_count = result->member_count - first;
    qsort(result->members + first + 1, (size_t)cluster->member_count - 1, sizeof(spsh__member),
          compare_ordinals);
}

static spsh_status make_result(spsh__copy_graph *g, spsh__clusters *ret_clusters, spsh_error *err)
{
    spsh__clusters result = {0};
    result.clusters = calloc(g->node_count + 1, sizeof(*result.clusters));
    result.members = calloc(g->node_count + 1, sizeof(*result.members));
    if (result.clusters == NULL || result.members == NULL) {
        spsh__clusters_free(&result);
        return SPSH_NO_MEMORY(err);
    }
    for (size_t i = 0; i < g->node_count; i++) {
        if (g->nodes[i].kept == i && g->nodes[i].first_child != SPSH__COPY_NONE)
            add_cluster(g, i, &result);
    }
    result.checked = g->checked;
    result.checked_count = g->checked_count;
    result.boilerplate = g->boilerplate;
    result.boilerplate_count = g->boilerplate_count;
    g->checked = NULL;
    g->boilerplate = NULL;
    *ret_clusters = result;
    return SPSH_OK;
}

spsh_status spsh__clusters_of(const spsh__quality_source *source, const spsh__match *matches,
                              uint64_t match_count, const spsh__policy *policy,
                              spsh__pair_check check, spsh__clusters *ret_clusters, spsh_error *err)
{
    spsh__copy_graph g = {.matches = matches,
                          .match_count = match_count,
                          .policy = policy,
                          .check = check,
                          .source = source};
    spsh_status rc = spsh__copy_graph_make(&g, err);
    if (rc == SPSH_OK)
        rc = spsh__copies_decide(&g, err);
    if (rc == SPSH_OK)
        rc = make_result(&g, ret_clusters, err);
    spsh__copy_graph_free(&g);
    return rc;
}

void spsh__clusters_free(spsh__clusters *clusters)
{
    free(clusters->clusters);
    free(clusters->members);
    free(clusters->checked);
    free(clusters->boilerplate);
    *clusters = (spsh__clusters){0};
}
