/* nccl.cu: the plug-in's entry for NCCL, and the CUDA functions that nccl_calls.c needs. */
#include <cuda_runtime.h>

#include <string.h>

#include "nccl_calls.h"

spsh_status spsh__nccl_key(uint32_t device, uint64_t *ret_key, spsh_error *err)
{
    cudaDeviceProp properties;
    const spsh_status rc = spsh__cuda_check((int)cudaGetDeviceProperties(&properties, (int)device),
                                            "reading the UUID of a device", err);
    uint64_t halves[2];
    static_assert(sizeof(properties.uuid) == sizeof(halves), "16 bytes");
    if (rc != SPSH_OK)
        return rc;
    memcpy(halves, &properties.uuid, sizeof(halves));
    *ret_key = halves[0] ^ halves[1] * UINT64_C(0x9e3779b97f4a7c15);
    return SPSH_OK;
}

const char *spsh__nccl_default(void)
{
    return "libnccl.so.2";
}

#if defined(__has_include)
#if __has_include(<nccl.h>)
#include <nccl.h>
static_assert(sizeof(ncclUniqueId) == sizeof(spsh__nccl_id), "ncclUniqueId");
static_assert((int)ncclSuccess == SPSH__NCCL_SUCCESS, "ncclSuccess");
static_assert((int)ncclInProgress == SPSH__NCCL_IN_PROGRESS, "ncclInProgress");
static_assert((int)ncclHalf == SPSH__NCCL_HALF, "ncclHalf");
static_assert((int)ncclFloat == SPSH__NCCL_FLOAT, "ncclFloat");
static_assert((int)ncclSum == SPSH__NCCL_SUM, "ncclSum");
static_assert(NCCL_VERSION_CODE >= SPSH__NCCL_VERSION_MIN, "nccl.h is older than 2.14");
static_assert(offsetof(ncclConfig_t, size) == offsetof(spsh__nccl_config, size_bytes), "size");
static_assert(offsetof(ncclConfig_t, magic) == offsetof(spsh__nccl_config, magic), "magic");
static_assert(offsetof(ncclConfig_t, version) == offsetof(spsh__nccl_config, version), "version");
static_assert(offsetof(ncclConfig_t, blocking) == offsetof(spsh__nccl_config, blocking),
              "blocking");
#if NCCL_VERSION_CODE >= 21700
static_assert(offsetof(ncclConfig_t, cgaClusterSize) ==
                  offsetof(spsh__nccl_config, cga_cluster_size),
              "cgaClusterSize");
static_assert(offsetof(ncclConfig_t, minCTAs) == offsetof(spsh__nccl_config, min_ctas), "minCTAs");
static_assert(offsetof(ncclConfig_t, maxCTAs) == offsetof(spsh__nccl_config, max_ctas), "maxCTAs");
static_assert(offsetof(ncclConfig_t, netName) == offsetof(spsh__nccl_config, net_name), "netName");
static_assert(NCCL_CONFIG_UNDEF_INT == SPSH__NCCL_UNDEFINED, "NCCL_CONFIG_UNDEF_INT");
static_assert(sizeof(ncclConfig_t) >= sizeof(spsh__nccl_config), "size of ncclConfig_t");
#else
static_assert(sizeof(ncclConfig_t) == SPSH__NCCL_CONFIG_BYTES_214, "size of ncclConfig_t");
#endif
static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int) &&
                  sizeof(ncclRedOp_t) == sizeof(int),
              "enums are ints");
#endif
#endif

extern "C" SPSH_API const spsh__device_nccl_entry *spsh_cuda_nccl_entry(void);

extern "C" SPSH_API const spsh__device_nccl_entry *spsh_cuda_nccl_entry(void)
{
    return &spsh__nccl_entry;
}
