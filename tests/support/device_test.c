/* device_test.c: a test that is skipped must not hide a plug-in that is broken: the lack of a
 * driver or of a device is the one reason to skip it. */
#include "device_test.h"

#include "spsh_test.h"

int device_test_open(const char *path, spsh_cuda **ret_cuda, twin_controls **ret_twin)
{
    twin_controls_fn *controls_fn = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_status rc = spsh_cuda_open(path, ret_cuda, &err);
    if (rc != SPSH_OK) {
        const bool is_absent = rc == SPSH_E_UNSUPPORTED;
        fprintf(stderr, "%s%s\n", is_absent ? "skipped: " : "", err.message);
        return is_absent ? TEST_SKIPPED : 1;
    }
    void *symbol = spsh_cuda_symbol(*ret_cuda, TWIN_CONTROLS_SYMBOL);
    memcpy(&controls_fn, &symbol, sizeof(controls_fn));
    if (ret_twin != NULL)
        *ret_twin = controls_fn != NULL ? controls_fn() : NULL;
    return 0;
}
