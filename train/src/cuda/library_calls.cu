/* library_calls.cu: finding cuBLASLt and cuDNN.
 *
 * They are loaded by their names with the major version. The system's linker searches the libraries
 * that the process has loaded (as Python programs may do), LD_LIBRARY_PATH, and the system's
 * folders. The libraries stay loaded.
 */
#include "library_calls.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define TEXT_OF(value_)  TEXT_OF_(value_)
#define TEXT_OF_(value_) #value_
#define BLAS_NAME        "libcublasLt.so." TEXT_OF(CUBLAS_VER_MAJOR)
#define DNN_NAME         "libcudnn.so." TEXT_OF(CUDNN_MAJOR)

enum { VERSION_OF_MAJOR = 10000 }; /* both: 13 --> 130000, 9 --> 90000 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static spsh__library_calls found;
static bool is_found;

static spsh_status load(const char *name, const char *package, void **ret_library, spsh_error *err)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *text = library == NULL ? dlerror() : NULL;
    if (library == NULL)
        return spsh__cuda_fail(
            err, SPSH_E_UNSUPPORTED,
            "training on a GPU needs %s: install %s, or add its folder to LD_LIBRARY_PATH (%s)",
            name, package, text == NULL ? "no reason given" : text);
    *ret_library = library;
    return SPSH_OK;
}

static spsh_status find(void *library, const char *file, const char *name, void *ret_call,
                        spsh_error *err)
{
    void *symbol = dlsym(library, name);
    if (symbol == NULL)
        return spsh__cuda_fail(err, SPSH_E_UNSUPPORTED,
                               "%s has no function %s; install the release that the plug-in was "
                               "built with, or a later one",
                               file, name);
    memcpy(ret_call, &symbol, sizeof(symbol));
    return SPSH_OK;
}

static spsh_status check_version(size_t version, size_t major, const char *file, spsh_error *err)
{
    if (version / VERSION_OF_MAJOR == major)
        return SPSH_OK;
    return spsh__cuda_fail(err, SPSH_E_UNSUPPORTED, "%s has version %zu.%zu, expected version %zu",
                           file, version / VERSION_OF_MAJOR, version % VERSION_OF_MAJOR / 100,
                           major);
}

static spsh_status find_all(spsh__library_calls *calls, spsh_error *err)
{
    void *blas = NULL;
    void *dnn = NULL;
    spsh_status rc = load(BLAS_NAME, "cuBLAS of CUDA " TEXT_OF(CUBLAS_VER_MAJOR), &blas, err);
    if (rc == SPSH_OK)
        rc = load(DNN_NAME, "cuDNN " TEXT_OF(CUDNN_MAJOR), &dnn, err);
#define SPSH_X(name_)                                                                              \
    if (rc == SPSH_OK)                                                                             \
        rc = find(blas, BLAS_NAME, #name_, &calls->name_, err);
    SPSH__BLAS_CALLS(SPSH_X)
#undef SPSH_X
#define SPSH_X(name_)                                                                              \
    if (rc == SPSH_OK)                                                                             \
        rc = find(dnn, DNN_NAME, #name_, &calls->name_, err);
    SPSH__DNN_CALLS(SPSH_X)
#undef SPSH_X
    if (rc == SPSH_OK)
        rc = check_version(calls->cublasLtGetVersion(), CUBLAS_VER_MAJOR, BLAS_NAME, err);
    if (rc == SPSH_OK)
        rc = check_version(calls->cudnnGetVersion(), CUDNN_MAJOR, DNN_NAME, err);
    return rc;
}

spsh_status spsh__library_calls_find(const spsh__library_calls **ret_calls, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    (void)pthread_mutex_lock(&lock);
    if (!is_found)
        rc = find_all(&found, err);
    is_found = is_found || rc == SPSH_OK;
    (void)pthread_mutex_unlock(&lock);
    if (rc == SPSH_OK)
        *ret_calls = &found;
    return rc;
}

static spsh_status status_of_blas(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED: return SPSH_E_NO_MEMORY;
    case CUBLAS_STATUS_INVALID_VALUE: return SPSH_E_INVALID_ARG;
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH: return SPSH_E_UNSUPPORTED;
    default: return SPSH_E_IO;
    }
}

spsh_status spsh__blas_check(const spsh__library_calls *calls, cublasStatus_t status,
                             const char *what, spsh_error *err)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return SPSH_OK;
    return spsh__cuda_fail(err, status_of_blas(status), "cuBLASLt, %s: %s (%d)", what,
                           calls->cublasLtGetStatusString(status), (int)status);
}

/* Since version 9, statuses have groups of a thousand: 2000 wrong arguments, 3000 not supported. */
static spsh_status status_of_dnn(cudnnStatus_t status)
{
    switch ((int)status / 1000) {
    case 2: return SPSH_E_INVALID_ARG;
    case 3: return SPSH_E_UNSUPPORTED;
    default: break;
    }
    return status == CUDNN_STATUS_ALLOC_FAILED ? SPSH_E_NO_MEMORY : SPSH_E_IO;
}

spsh_status spsh__dnn_check(const spsh__library_calls *calls, cudnnStatus_t status,
                            const char *what, spsh_error *err)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return SPSH_OK;
    return spsh__cuda_fail(err, status_of_dnn(status), "cuDNN, %s: %s (%d)", what,
                           calls->cudnnGetErrorString(status), (int)status);
}
