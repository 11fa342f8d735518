/* feature_maker.c: decode in pieces, mix, resample as a whole, compute. Memory grows to the longest
 * utterance and stays.
 */
#include "feature_maker.h"

#include <stdlib.h>
#include <string.h>

#include "speechshard/inside.h"

enum { PIECE_VALUES = 1 << 15 };

struct spsh__feature_maker {
    spsh__feature_setup setup;
    spsh_reader *reader;
    spsh_featgen_worker *worker;
    float *mean, *scale; /* dim each */
    double *sums;        /* 2 * dim */
    uint64_t group;      /* group of mean, scale, and sums */
    spsh__feature_bytes pcm, resampled, rows;
    int16_t piece[PIECE_VALUES];
};

spsh_status spsh__feature_maker_open(const spsh__feature_setup *setup,
                                     spsh__feature_maker **ret_maker, spsh_error *err)
{
    const size_t dim = spsh_featgen_dim(setup->featgen);
    spsh__feature_maker *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return SPSH_NO_MEMORY(err);
    m->setup = *setup;
    m->group = UINT64_MAX;
    m->mean = calloc(dim, sizeof(*m->mean));
    m->scale = calloc(dim, sizeof(*m->scale));
    m->sums = calloc(2 * dim, sizeof(*m->sums));
    spsh_status rc = m->mean == NULL || m->scale == NULL || m->sums == NULL
                         ? SPSH_NO_MEMORY(err)
                         : spsh_reader_open(setup->dataset, &m->reader, err);
    if (rc == SPSH_OK)
        rc = spsh_featgen_worker_open(setup->featgen, &m->worker, err);
    if (rc == SPSH_OK)
        *ret_maker = m;
    else
        spsh__feature_maker_close(m);
    return rc;
}

void spsh__feature_maker_close(spsh__feature_maker *maker)
{
    if (maker == NULL)
        return;
    spsh_featgen_worker_close(maker->worker);
    spsh_reader_close(maker->reader);
    free(maker->mean);
    free(maker->scale);
    free(maker->sums);
    free(maker->pcm.data);
    free(maker->resampled.data);
    free(maker->rows.data);
    free(maker);
}

bool spsh__feature_is_damage(spsh_status status)
{
    return status == SPSH_E_AUDIO || status == SPSH_E_CORRUPT || status == SPSH_E_TRUNCATED ||
           status == SPSH_E_UNSUPPORTED;
}

bool spsh__feature_is_undecodable(spsh__feature_maker *maker, uint64_t position)
{
    const spsh_record *record = NULL;
    return spsh_reader_record(maker->reader, position, &record, NULL) == SPSH_OK &&
           (record->flags & SPSH_RECORD_UNDECODABLE) != 0;
}

spsh_status spsh__feature_bytes_take(spsh__feature_bytes *bytes, uint64_t count,
                                     size_t element_bytes, spsh_error *err)
{
    bytes->size_bytes = (size_t)count * element_bytes;
    if (bytes->data != NULL && count <= bytes->capacity_bytes / element_bytes)
        return SPSH_OK;
    free(bytes->data);
    *bytes = (spsh__feature_bytes){NULL, bytes->size_bytes, 0};
    if (count < SPSH_PCM_BYTES_MAX)
        bytes->data = malloc(bytes->size_bytes + 1);
    if (bytes->data == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "no memory for %llu values",
                         (unsigned long long)count);
    bytes->capacity_bytes = bytes->size_bytes;
    return SPSH_OK;
}

static spsh_status decode(spsh__feature_maker *m, uint64_t position, const spsh_row *row,
                          spsh_error *err)
{
    const uint64_t fit = PIECE_VALUES / row->channels;
    int16_t *pcm = (int16_t *)(void *)m->pcm.data;
    spsh_status rc = SPSH_OK;
    for (uint64_t done = 0; done < row->samples && rc == SPSH_OK;) {
        const bool straight = row->channels == 1;
        uint64_t got = 0;
        rc = spsh_reader_read_i16(m->reader, position, done, straight ? pcm + done : m->piece,
                                  straight ? row->samples - done : fit, &got, err);
        if (rc == SPSH_OK && got == 0)
            rc = SPSH_FAIL(err, SPSH_E_AUDIO, "utterance number %llu: ends at sample %llu",
                           (unsigned long long)position, (unsigned long long)done);
        if (rc == SPSH_OK && !straight)
            spsh_mix_i16(m->piece, got, row->channels, pcm + done);
        done += got;
    }
    return rc;
}

/* Return the samples, resampled to the features' rate. */
static spsh_status prepare(spsh__feature_maker *m, uint64_t position, const spsh_row *row,
                           spsh_feature_input *input, spsh_error *err)
{
    const uint32_t rate_hz = spsh_featgen_features(m->setup.featgen)->sample_rate_hz;
    spsh_status rc = spsh__feature_bytes_take(&m->pcm, row->samples, sizeof(int16_t), err);
    if (rc == SPSH_OK)
        rc = decode(m, position, row, err);
    input->i16 = (const int16_t *)(const void *)m->pcm.data;
    input->sample_count = row->samples;
    if (rc != SPSH_OK || rate_hz == row->sample_rate_hz)
        return rc;
    const uint64_t most = row->samples / row->sample_rate_hz * rate_hz +
                          row->samples % row->sample_rate_hz * rate_hz / row->sample_rate_hz + 1;
    rc = spsh__feature_bytes_take(&m->resampled, most, sizeof(int16_t), err);
    if (rc == SPSH_OK)
        rc = spsh_resample_i16(input->i16, row->samples, 1, row->sample_rate_hz, rate_hz,
                               (int16_t *)(void *)m->resampled.data, most, &input->sample_count,
                               err);
    input->i16 = (const int16_t *)(const void *)m->resampled.data;
    return rc;
}

static spsh_status take_norm(spsh__feature_maker *m, const spsh_row *row, spsh_feature_input *input,
                             spsh_error *err)
{
    const uint32_t dim = spsh_featgen_dim(m->setup.featgen);
    const uint64_t group = spsh_featgen_features(m->setup.featgen)->norm == SPSH_NORM_SPEAKER
                               ? spsh_statistics_speaker(row->speaker)
                               : SPSH_STATISTICS_DATASET;
    if (m->setup.statistics == NULL)
        return SPSH_OK;
    input->mean = m->mean;
    input->scale = m->scale;
    if (group == m->group)
        return SPSH_OK;
    spsh_statistics_sums found = {0, m->sums, m->sums + dim};
    const spsh_status rc = spsh_statistics_get(m->setup.statistics, group, &found, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_feature_sums sums = {found.frame_count, dim, found.sum, found.square_sum};
    spsh_feature_sums_norm(&sums, found.frame_count > 0, m->mean, m->scale);
    m->group = group;
    return SPSH_OK;
}

spsh_status spsh__feature_maker_run(spsh__feature_maker *maker, uint64_t position,
                                    const spsh_row *row, const float **ret_rows,
                                    uint64_t *ret_frame_count, spsh_error *err)
{
    spsh__feature_maker *m = maker;
    spsh_feature_input input = {0};
    spsh_status rc = take_norm(m, row, &input, err);
    if (rc == SPSH_OK)
        rc = prepare(m, position, row, &input, err);
    if (rc != SPSH_OK)
        return rc;
    const uint64_t frames = spsh_featgen_frame_count(m->setup.featgen, input.sample_count);
    const uint64_t values = frames * spsh_featgen_dim(m->setup.featgen);
    rc = spsh__feature_bytes_take(&m->rows, values, sizeof(float), err);
    if (rc == SPSH_OK)
        rc = spsh_featgen_compute(m->worker, &input, (float *)(void *)m->rows.data, err);
    if (rc == SPSH_OK) {
        *ret_rows = (const float *)(const void *)m->rows.data;
        *ret_frame_count = frames;
    }
    return rc;
}
