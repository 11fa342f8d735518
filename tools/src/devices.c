/* devices.c: see devices.h. */
#include "devices.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cli.h"
#include "json_out.h"
#include "speechshard/cuda.h"

static void print_device(uint32_t number, const spsh_cuda_device *device)
{
    char memory[SPSH_HUMAN_BYTES];
    printf("device %" PRIu32 "   %s, sm_%" PRIu32 "%" PRIu32 ", %" PRIu32
           " multiprocessors, %s, driver for CUDA %" PRIu32 ".%" PRIu32 "\n",
           number, device->name, device->capability_major, device->capability_minor,
           device->multiprocessor_count, spsh__human_bytes(device->memory_bytes, memory),
           device->driver_version / 1000, device->driver_version % 1000 / 10);
}

static void put_device(spsh_json *json, uint32_t number, const spsh_cuda_device *device)
{
    spsh__json_begin_object(json, NULL);
    spsh__json_put_u64(json, "number", number);
    spsh__json_put_string(json, "name", device->name);
    spsh__json_put_u64(json, "capability_major", device->capability_major);
    spsh__json_put_u64(json, "capability_minor", device->capability_minor);
    spsh__json_put_u64(json, "multiprocessors", device->multiprocessor_count);
    spsh__json_put_u64(json, "memory_bytes", device->memory_bytes);
    spsh__json_put_u64(json, "bandwidth_bytes", device->bandwidth_bytes);
    spsh__json_put_u64(json, "driver_version", device->driver_version);
    spsh__json_put_u64(json, "runtime_version", device->runtime_version);
    spsh__json_end(json);
}

/* json: NULL prints lines. */
static spsh_status list_devices(const spsh_cuda *cuda, spsh_json *json, spsh_error *err)
{
    for (uint32_t i = 0; i < spsh_cuda_device_count(cuda); i++) {
        spsh_cuda_device device;
        const spsh_status rc = spsh_cuda_device_get(cuda, i, &device, err);
        if (rc != SPSH_OK)
            return rc;
        if (json == NULL)
            print_device(i, &device);
        else
            put_device(json, i, &device);
    }
    return SPSH_OK;
}

static int print_json(const spsh_cuda *cuda, const char *reason)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    spsh_json *json = spsh__json_new();
    if (json == NULL)
        return spsh__cli_fail_memory();
    spsh__json_begin_array(json, "devices");
    if (cuda != NULL)
        rc = list_devices(cuda, json, &err);
    spsh__json_end(json);
    spsh__json_put_string(json, "reason", reason);
    if (rc == SPSH_OK)
        rc = spsh__json_write_pretty(json, stdout, &err);
    spsh__json_free(json);
    if (rc != SPSH_OK && !spsh__cli_output_failed())
        return spsh__cli_fail("devices", &err);
    return SPSH_EXIT_DONE;
}

int spsh__print_devices(bool as_json)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_cuda *cuda = NULL;
    int rc = SPSH_EXIT_DONE;
    const bool is_open = spsh_cuda_open(getenv("SPEECHSHARD_CUDA_PLUGIN"), &cuda, &err) == SPSH_OK;
    if (as_json)
        rc = print_json(cuda, is_open ? NULL : err.message);
    else if (!is_open)
        printf("no device  %s\n", err.message);
    else if (list_devices(cuda, NULL, &err) != SPSH_OK)
        rc = spsh__cli_fail("devices", &err);
    spsh_cuda_close(cuda);
    return rc;
}
