/* choose_backend.c: see choose_backend.h.
 *
 * `auto` selects a device if every rank can open one with all that the backend needs. Ranks on
 * different kinds of backend would not compute the same update. Otherwise `auto` selects the host,
 * and the text gives the reason. A device that is present but fails is an error: a silent fallback
 * to the CPU would be noticed only after hours.
 */
#include "choose_backend.h"

#include <stdio.h>
#include <unistd.h>

#include "backend_cuda/backend_cuda_rnn.h"
#include "speechshard/inside.h"

static const char *const precisions[] = {"fp32", "tf32", "bf16", "fp16"};

/* Precision of products on a device, as the configuration requests it. The default is bf16: weights
 * of 1,024 units then fit in the shared memory of persistent recurrent layers, and the range is that
 * of floats, so losses need no scale. Devices that cannot multiply bf16 are rejected: the plug-in has
 * no kernels for them. */
static spsh__precision precision_on_device(const spsh__config *c)
{
    return c->precision == 0 ? SPSH__BF16 : (spsh__precision)(c->precision - 1);
}

static spsh_status choose_device(const spsh__compute_options *o, const spsh_cuda *cuda,
                                 uint32_t *ret_number, spsh_error *err)
{
    const uint32_t count = spsh_cuda_device_count(cuda);
    if (strcmp(o->config->device, "auto") == 0) {
        *ret_number = o->local_rank % count;
        return SPSH_OK;
    }
    const char *text = o->config->device; /* checked by config.c */
    uint64_t number = 0;
    if (!spsh__take_digits(&text, UINT32_MAX, &number) || number >= count)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG, "train.device is %s, but there %s %u device%s, counted from 0",
            o->config->device, count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    *ret_number = (uint32_t)number;
    return SPSH_OK;
}

static spsh_status open_on_device(const spsh__compute_options *o, spsh__compute *c, spsh_error *err)
{
    spsh__backend_options options = {.name = "cuda",
                                     .threads = o->threads,
                                     .precision = precision_on_device(o->config),
                                     .is_deterministic = o->config->is_deterministic,
                                     .has_graphs = o->config->has_graphs};
    spsh_status rc = spsh_cuda_open(NULL, &c->cuda, err);
    if (rc == SPSH_OK)
        rc = choose_device(o, c->cuda, &options.device, err);
    options.cuda = c->cuda;
    if (rc == SPSH_OK)
        rc = spsh__backend_open_with(&options, o->allocator, &c->backend, err);
    if (rc == SPSH_OK)
        spsh__cuda_rnn_choose(c->backend, o->config->rnn);
    else
        spsh__compute_close(c);
    return rc;
}

static spsh_status log_device(const spsh__compute_options *o, spsh__compute *c, spsh_error *err)
{
    spsh_cuda_device device = SPSH_CUDA_DEVICE_INIT;
    const spsh_status rc = spsh_cuda_device_get(c->cuda, c->backend->device, &device, err);
    if (rc != SPSH_OK)
        return rc;
    (void)snprintf(
        c->text, sizeof(c->text), "cuda, device %u of %u (%.80s), %s%s", c->backend->device,
        spsh_cuda_device_count(c->cuda), device.name, precisions[c->backend->precision],
        o->config->is_deterministic
            ? ", deterministic"
            : "; not deterministic: set train.deterministic to get identical bits after a resume");
    return SPSH_OK;
}

static const char *host_name(const spsh__config *c)
{
    return c->backend == SPSH__BACKEND_REFERENCE ? "reference" : "cpu";
}

/* Files of NVIDIA's driver: on a PC or server, under WSL, and on a Jetson. */
static bool machine_has_gpu(void)
{
    static const char *const files[] = {"/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg",
                                        "/dev/nvhost-gpu"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (access(files[i], F_OK) == 0)
            return true;
    return false;
}

/* Describe the host as the choice. On a machine without a GPU, do not report a missing plug-in: it
 * would look like an error of the user. */
static void tell_host(const char *name, const char *why, spsh__compute *c)
{
    const bool is_surprise = why != NULL && machine_has_gpu();
    (void)snprintf(c->text, sizeof(c->text), "%s%s%s%s", name,
                   why != NULL ? ", because there is no GPU" : "", is_surprise ? ": " : "",
                   is_surprise ? why : "");
    (void)snprintf(c->why, sizeof(c->why), "%s", why == NULL || is_surprise ? "" : why);
}

/* why: reason that there is no device; NULL: the configuration requested the host. */
static spsh_status open_on_host(const spsh__compute_options *o, const char *why, spsh__compute *c,
                                spsh_error *err)
{
    const char *name = host_name(o->config);
    const uint32_t wanted = o->config->precision;
    if (wanted > 1 && !o->is_for_reading)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "train.precision is %s, which backend %s does not support, but cuda "
                         "does%s%.120s; use auto or fp32",
                         precisions[wanted - 1], name, why != NULL ? "; no GPU: " : "",
                         why != NULL ? why : "");
    tell_host(name, why, c);
    return spsh__backend_open(name, o->threads, o->allocator, &c->backend, err);
}

/* A device that is present but fails does not count as absent. */
static bool is_absence(spsh_status rc)
{
    return rc == SPSH_E_NOT_FOUND || rc == SPSH_E_VERSION || rc == SPSH_E_UNSUPPORTED;
}

/* Close the device of this rank unless all ranks have opened one. All ranks call together. */
static spsh_status agree(const spsh__compute_options *o, spsh__compute *c, spsh_error *why,
                         spsh_error *err)
{
    uint64_t missing = c->backend == NULL;
    if (o->comm == NULL || o->comm->world_size == 1)
        return SPSH_OK;
    const spsh_status rc =
        spsh__comm_all_reduce(o->comm, SPSH__COMM_U64, SPSH__COMM_MAX, &missing, 1, err);
    if (rc == SPSH_OK && missing != 0 && c->backend != NULL) {
        spsh__compute_close(c);
        spsh_error_set(why, SPSH_E_NOT_FOUND, 0, SPSH_OFFSET_NONE, "another process has no GPU");
    }
    return rc;
}

static spsh_status open_auto(const spsh__compute_options *o, spsh__compute *c, spsh_error *err)
{
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = open_on_device(o, c, &why);
    if (rc != SPSH_OK && !is_absence(rc))
        return spsh__fail_again(rc, &why, err);
    rc = agree(o, c, &why, err);
    if (rc != SPSH_OK)
        spsh__compute_close(c);
    if (rc == SPSH_OK && c->backend == NULL)
        rc = open_on_host(o, why.message, c, err);
    return rc;
}

static spsh_status open_cuda(const spsh__compute_options *o, spsh__compute *c, spsh_error *err)
{
    spsh_error why = SPSH_ERROR_INIT;
    const spsh_status rc = open_on_device(o, c, &why);
    return rc == SPSH_OK
               ? SPSH_OK
               : SPSH_FAIL_AT(err, rc, why.offset_bytes,
                              "train.backend is cuda, but cannot be used: %.180s", why.message);
}

spsh_status spsh__compute_open(const spsh__compute_options *o, spsh__compute *ret, spsh_error *err)
{
    const spsh__backend_choice choice = o->config->backend;
    spsh__compute c = {.cuda = NULL};
    spsh_status rc = SPSH_OK;
    if (choice == SPSH__BACKEND_CPU || choice == SPSH__BACKEND_REFERENCE)
        rc = open_on_host(o, NULL, &c, err);
    else if (choice == SPSH__BACKEND_AUTO || o->is_for_reading)
        rc = open_auto(o, &c, err);
    else
        rc = open_cuda(o, &c, err);
    if (rc == SPSH_OK && c.cuda != NULL)
        rc = log_device(o, &c, err);
    if (rc == SPSH_OK)
        *ret = c;
    else
        spsh__compute_close(&c);
    return rc;
}

void spsh__compute_close(spsh__compute *c)
{
    spsh__backend_close(c->backend);
    spsh_cuda_close(c->cuda);
    c->backend = NULL;
    c->cuda = NULL;
}
