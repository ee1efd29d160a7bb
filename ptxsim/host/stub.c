/* The host side of a CuTe DSL object calls these instead of the CUDA runtime; every launch goes to a callback.
 * Written from the object's undefined symbols, the public CUDA runtime header and the public tvm-ffi C interface. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*launch_fn)(const char *kernel, const void *config, void **params);
static launch_fn on_launch;
static char error_text[4096];
static int shared_limit = 232448, sm_count = 148, major = 10, minor = 0;
static char **names;
static int name_count;

void ptxsim_setup(launch_fn fn, int sms, int cc_major, int cc_minor) {
    on_launch = fn;
    sm_count = sms;
    major = cc_major;
    minor = cc_minor;
    error_text[0] = 0;
}
const char *ptxsim_error(void) { return error_text; }

int _cudaSetDevice(int device) { return 0; }
int _cudaGetDevice(int *device) { *device = 0; return 0; }
int _cudaDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
        case 16: *value = sm_count; break;      /* multiprocessors */
        case 75: *value = major; break;
        case 76: *value = minor; break;
        case 97: *value = shared_limit; break;  /* opt-in shared memory per block */
        default: *value = 0;
    }
    return 0;
}
int _cudaLibraryLoadData(void **library, const void *code, void *a, void *b, unsigned n, void *c, void *d, unsigned m) {
    *library = (void *)code;
    return 0;
}
int _cudaLibraryGetKernel(void **kernel, void *library, const char *name) {
    for (int i = 0; i < name_count; i++)
        if (!strcmp(names[i], name)) { *kernel = names[i]; return 0; }
    char **longer = realloc(names, (name_count + 1) * sizeof *names);
    if (!longer) return 2;
    names = longer;
    if (!(names[name_count] = strdup(name))) return 2;
    *kernel = names[name_count++];
    return 0;
}
int _cudaKernelSetAttributeForDevice(void *kernel, int attribute, int value, int device) { return 0; }
int _cudaFuncSetAttribute(void *kernel, int attribute, int value) { return 0; }
int _cuKernelGetAttribute(int *value, int attribute, void *kernel, int device) { *value = 0; return 0; }
int _cudaLaunchKernelEx(const void *config, void *kernel, void **params) {
    if (!on_launch) return 1;
    on_launch((const char *)kernel, config, params);
    return 0;
}
int cuda_dialect_init_library_once(void **state, int (*init)(void **), int (*load)(void **, int), void *set_error) {
    if (*state == NULL) {
        int rc = init(state);
        if (rc) return rc;
        return load(state, 0);
    }
    return 0;
}
int cuda_dialect_unload_library_once(void **state) { return 0; }
#ifndef PTXSIM_JIT /* with a CuTe DSL that is here, these are its own and tvm-ffi's */
void CuteDSLRT_TVMFFISetRaisedCudaError(int code) { snprintf(error_text, sizeof error_text, "CUDA error %d", code); }
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) {
    snprintf(error_text, sizeof error_text, "%s: %s", kind, message);
}
void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t n) {
    int at = snprintf(error_text, sizeof error_text, "%s: ", kind);
    for (int i = 0; i < n && at < (int)sizeof error_text; i++)
        if (parts[i]) at += snprintf(error_text + at, sizeof error_text - at, "%s", parts[i]);
}
void *TVMFFIEnvGetStream(int32_t device_type, int32_t device_id) { return NULL; }
#endif
