/* devices.c: see devices.h. */
#include "devices.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "common/json_out.h"
#include "speechshard/cuda.h"

/* A device and its free memory. If another process has exclusive use of it, the free memory is
 * unknown and `why` holds the reason. */
typedef struct listed_device {
    spsh_cuda_device device;
    uint64_t free_bytes;
    bool is_usable;
    spsh_error why; /* reason if it is not usable */
} listed_device;

static spsh_status get_listed(const spsh_cuda *cuda, uint32_t number, listed_device *listed,
                              spsh_error *err)
{
    uint64_t all_bytes = 0;
    listed->free_bytes = 0;
    listed->is_usable =
        spsh_cuda_memory(cuda, number, &listed->free_bytes, &all_bytes, &listed->why) == SPSH_OK;
    listed->device = (spsh_cuda_device)SPSH_CUDA_DEVICE_INIT;
    return spsh_cuda_device_get(cuda, number, &listed->device, err);
}

static void print_device(uint32_t number, const listed_device *listed)
{
    const spsh_cuda_device *device = &listed->device;
    printf("device %" PRIu32 "   %s, sm_%" PRIu32 "%" PRIu32 ", %" PRIu32 " multiprocessors, ",
           number, device->name, device->capability_major, device->capability_minor,
           device->multiprocessor_count);
    if (listed->is_usable)
        printf("%s free of ", SPSH_SHOW_BYTES(listed->free_bytes));
    printf("%s, driver for CUDA %" PRIu32 ".%" PRIu32, SPSH_SHOW_BYTES(device->memory_bytes),
           device->driver_version / 1000, device->driver_version % 1000 / 10);
    if (!listed->is_usable)
        printf("; cannot be used now: %s", listed->why.message);
    printf("\n");
}

static void put_device(spsh_json *json, uint32_t number, const listed_device *listed)
{
    const spsh_cuda_device *device = &listed->device;
    spsh__json_begin_object(json, NULL);
    spsh__json_put_u64(json, "number", number);
    spsh__json_put_string(json, "name", device->name);
    spsh__json_put_u64(json, "capability_major", device->capability_major);
    spsh__json_put_u64(json, "capability_minor", device->capability_minor);
    spsh__json_put_u64(json, "multiprocessors", device->multiprocessor_count);
    spsh__json_put_u64(json, "memory_bytes", device->memory_bytes);
    if (listed->is_usable)
        spsh__json_put_u64(json, "free_bytes", listed->free_bytes);
    else
        spsh__json_put_null(json, "free_bytes");
    spsh__json_put_string(json, "reason", listed->is_usable ? NULL : listed->why.message);
    spsh__json_put_u64(json, "bandwidth_bytes", device->bandwidth_bytes);
    spsh__json_put_u64(json, "driver_version", device->driver_version);
    spsh__json_put_u64(json, "runtime_version", device->runtime_version);
    spsh__json_end(json);
}

/* json: NULL prints lines. */
static spsh_status list_devices(const spsh_cuda *cuda, spsh_json *json, spsh_error *err)
{
    for (uint32_t i = 0; i < spsh_cuda_device_count(cuda); i++) {
        listed_device listed;
        const spsh_status rc = get_listed(cuda, i, &listed, err);
        if (rc != SPSH_OK)
            return rc;
        if (json == NULL)
            print_device(i, &listed);
        else
            put_device(json, i, &listed);
    }
    return SPSH_OK;
}

static void print_library(const spsh_cuda_library *library)
{
    if (library->version[0] != '\0')
        printf("library    %s %s, for %s\n", library->name, library->version, library->used_for);
    else
        printf("library    %s is missing (for %s): %s\n", library->name, library->used_for,
               library->reason);
}

static void put_library(spsh_json *json, const spsh_cuda_library *library)
{
    const bool is_found = library->version[0] != '\0';
    spsh__json_begin_object(json, NULL);
    spsh__json_put_string(json, "name", library->name);
    spsh__json_put_string(json, "used_for", library->used_for);
    spsh__json_put_string(json, "version", is_found ? library->version : NULL);
    spsh__json_put_string(json, "reason", is_found ? NULL : library->reason);
    spsh__json_end(json);
}

/* List the libraries that parts of the plug-in load on demand. */
static void list_libraries(const spsh_cuda *cuda, spsh_json *json)
{
    spsh_cuda_library library = SPSH_CUDA_LIBRARY_INIT;
    for (uint32_t i = 0; spsh_cuda_library_get(cuda, i, &library) == SPSH_OK; i++) {
        if (json == NULL)
            print_library(&library);
        else
            put_library(json, &library);
    }
}

static int print_json(const spsh_cuda *cuda, const char *reason)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    spsh_json *json = spsh__json_new();
    spsh__json_begin_array(json, "devices");
    if (cuda != NULL)
        rc = list_devices(cuda, json, &err);
    spsh__json_end(json);
    spsh__json_begin_array(json, "libraries");
    if (cuda != NULL && rc == SPSH_OK)
        list_libraries(cuda, json);
    spsh__json_end(json);
    spsh__json_put_string(json, "reason", reason);
    return spsh__cli_json_indented(json, rc, "devices", &err);
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
    else
        list_libraries(cuda, NULL);
    spsh_cuda_close(cuda);
    return rc;
}
