/* copy_facts.c: statistics of all matches that the pages show, and the limits of the verdicts. */
#include <math.h>

#include "copy_report.h"

static unsigned bar_of(double value, double end)
{
    const double bar = value / end * SPSH__HISTOGRAM_BARS;
    if (!(bar > 0))
        return 0;
    return bar < SPSH__HISTOGRAM_BARS ? (unsigned)bar : SPSH__HISTOGRAM_BARS - 1;
}

void spsh__copy_facts_count(spsh__copy_facts *facts, const spsh__match *match)
{
    const bool is_same = match->kind == SPSH_COPY_SAME_RECORDING ||
                         match->kind == SPSH_COPY_CONTAINED ||
                         match->kind == SPSH_COPY_SHARED_SEGMENT;
    facts->by_tier_class[match->tier][match->kind]++;
    if (match->tier != SPSH_TIER_ACOUSTIC)
        return;
    (is_same ? facts->ber_same : facts->ber_other)[bar_of(match->ber, 0.5)]++;
    (is_same ? facts->ncc_same : facts->ncc_other)[bar_of(fabs(match->ncc), 1)]++;
}

const spsh__match *spsh__plan_match(const spsh__plan_facts *facts, uint64_t number)
{
    if (number < facts->common.match_count)
        return &facts->matches[number];
    number -= facts->common.match_count;
    return number < facts->clusters->checked_count ? &facts->clusters->checked[number] : NULL;
}

void spsh__limits_put(spsh_json *json, const spsh__align_limits *l)
{
    spsh__json_put_u64(json, "version", l->version);
    spsh__json_put_real(json, "bit_worth", l->bit_worth);
    spsh__json_begin_array(json, "ber_max");
    for (size_t i = 0; i < sizeof(l->ber_max) / sizeof(l->ber_max[0]); i++)
        spsh__json_put_real(json, NULL, l->ber_max[i]);
    spsh__json_end(json);
    const struct {
        const char *name;
        double value;
    } reals[] = {
        {"active_min_s",         l->active_min_s        },
        {"tiny_s",               l->tiny_s              },
        {"short_s",              l->short_s             },
        {"probable_s",           l->probable_s          },
        {"long_s",               l->long_s              },
        {"words_min_hz",         l->words_min_hz        },
        {"tonality_max",         l->tonality_max        },
        {"ncc_sure",             l->ncc_sure            },
        {"ncc_with_bits",        l->ncc_with_bits       },
        {"ber_sure",             l->ber_sure            },
        {"ncc_tiny",             l->ncc_tiny            },
        {"ncc_short",            l->ncc_short           },
        {"white_min",            l->white_min           },
        {"white_tiny",           l->white_tiny          },
        {"white_short",          l->white_short         },
        {"white_with_bits",      l->white_with_bits     },
        {"ncc_block",            l->ncc_block           },
        {"coverage_min",         l->coverage_min        },
        {"slope_min_ppm",        l->slope_min_ppm       },
        {"speed_max_ppm",        l->speed_max_ppm       },
        {"gap_cost",             l->gap_cost            },
        {"ncc_gap",              l->ncc_gap             },
        {"ber_probable",         l->ber_probable        },
        {"envelope_probable",    l->envelope_probable   },
        {"ber_long",             l->ber_long            },
        {"envelope_long",        l->envelope_long       },
        {"spread_max_ms",        l->spread_max_ms       },
        {"share_performance",    l->share_performance   },
        {"slope_max_ppm",        l->slope_max_ppm       },
        {"envelope_performance", l->envelope_performance},
    };
    for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++)
        spsh__json_put_real(json, reals[i].name, reals[i].value);
    spsh__json_put_u64(json, "blocks_performance", l->blocks_performance);
}
