/* quota.c: worst-case fair weighted fair queueing (WF2Q; Bennett, Zhang 1996), in whole numbers.
 *
 * After T units, the share of a domain of weight w is w * T / W. A domain whose served units have
 * not gone past its share is eligible; of the eligible the one that would come to its share first
 * by its next utterance, the least (served + length) / w, is served. Then no domain is ever behind
 * or ahead of its share by more than one utterance. One is always eligible, as the mean of served
 * minus share is zero; when weights are what the domains hold in units, one that has served
 * everything is not eligible before all have.
 *
 * Fractions are compared by their doubles, and by cross multiplication in 128 bits where those are
 * too close to call: so the order is exact, the same on every machine, and what has been served
 * describes the state completely.
 */
#include "quota.h"

/* Relative error of a quotient of two rounded numbers is below 2^-51. */
static const double close_call = 1e-14;

/* a / wa < b / wb, or equal and x < y. near: the quotients' doubles. */
static bool is_less(const spsh__share *shares, uint32_t x, uint32_t y, bool finish)
{
    const spsh__share *a = &shares[x];
    const spsh__share *b = &shares[y];
    double near_a = finish ? a->finish : a->start;
    double near_b = finish ? b->finish : b->start;
    double difference = near_a - near_b;
    double margin = (near_a + near_b) * close_call;
    if (difference < -margin)
        return true;
    if (difference > margin)
        return false;
    spsh__u128 left = (spsh__u128)(a->served + (finish ? a->length : 0)) * b->weight;
    spsh__u128 right = (spsh__u128)(b->served + (finish ? b->length : 0)) * a->weight;
    return left != right ? left < right : x < y;
}

static void sift_down(const spsh__share *shares, uint32_t *heap, uint32_t count, bool finish)
{
    uint32_t moved = heap[0];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && is_less(shares, heap[child + 1], heap[child], finish))
            child++;
        if (!is_less(shares, heap[child], moved, finish))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static void push(const spsh__share *shares, uint32_t *heap, uint32_t *count, uint32_t domain,
                 bool finish)
{
    uint32_t at = (*count)++;
    while (at > 0) {
        uint32_t parent = (at - 1) / 2;
        if (!is_less(shares, domain, heap[parent], finish))
            break;
        heap[at] = heap[parent];
        at = parent;
    }
    heap[at] = domain;
}

static void pop(const spsh__share *shares, uint32_t *heap, uint32_t *count, bool finish)
{
    (*count)--;
    heap[0] = heap[*count];
    if (*count > 1)
        sift_down(shares, heap, *count, finish);
}

spsh_status spsh__quota_open(spsh__quota *quota, uint32_t count, const spsh_allocator *allocator,
                             spsh_error *err)
{
    *quota = (spsh__quota){.count = count};
    quota->shares = (spsh__share *)spsh__new_array(allocator, count, sizeof(spsh__share));
    quota->eligible = (uint32_t *)spsh__new_array(allocator, count, sizeof(uint32_t));
    quota->waiting = (uint32_t *)spsh__new_array(allocator, count, sizeof(uint32_t));
    if (quota->shares == NULL || quota->eligible == NULL || quota->waiting == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "shares of %u domains", count);
    return SPSH_OK;
}

void spsh__quota_close(spsh__quota *quota, const spsh_allocator *allocator)
{
    spsh__delete(allocator, quota->shares);
    spsh__delete(allocator, quota->eligible);
    spsh__delete(allocator, quota->waiting);
    *quota = (spsh__quota){.count = 0};
}

void spsh__quota_clear(spsh__quota *quota, uint64_t weight_sum)
{
    quota->eligible_count = 0;
    quota->waiting_count = 0;
    quota->weight_sum = weight_sum;
    quota->served = 0;
}

static void set_length(spsh__share *share, uint64_t length)
{
    share->length = length;
    share->start = (double)share->served / (double)share->weight;
    share->finish = (double)(share->served + length) / (double)share->weight;
}

void spsh__quota_add(spsh__quota *quota, uint32_t domain, uint64_t weight, uint64_t served,
                     uint64_t length)
{
    spsh__share *share = &quota->shares[domain];
    *share = (spsh__share){.weight = weight, .served = served};
    quota->served += served;
    if (weight == 0 || length == 0)
        return;
    set_length(share, length);
    push(quota->shares, quota->waiting, &quota->waiting_count, domain, false);
}

static bool is_eligible(const spsh__quota *quota, uint32_t domain)
{
    const spsh__share *share = &quota->shares[domain];
    return (spsh__u128)share->served * quota->weight_sum <=
           (spsh__u128)share->weight * quota->served;
}

uint32_t spsh__quota_pick(spsh__quota *quota)
{
    while (quota->waiting_count > 0 && is_eligible(quota, quota->waiting[0])) {
        uint32_t domain = quota->waiting[0];
        pop(quota->shares, quota->waiting, &quota->waiting_count, false);
        push(quota->shares, quota->eligible, &quota->eligible_count, domain, true);
    }
    if (quota->eligible_count > 0)
        return quota->eligible[0];
    return SPSH_NONE_U32;
}

void spsh__quota_serve(spsh__quota *quota, uint32_t domain, uint64_t next_length)
{
    spsh__share *share = &quota->shares[domain];
    share->served += share->length;
    quota->served += share->length;
    if (next_length == 0) {
        pop(quota->shares, quota->eligible, &quota->eligible_count, true);
        return;
    }
    set_length(share, next_length);
    if (is_eligible(quota, domain)) {
        sift_down(quota->shares, quota->eligible, quota->eligible_count, true);
        return;
    }
    pop(quota->shares, quota->eligible, &quota->eligible_count, true);
    push(quota->shares, quota->waiting, &quota->waiting_count, domain, false);
}
