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
static void put(uint64_t *map, int at, int bits, uint64_t value) { /* no field crosses a word */
    uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
    map[at / 64] |= (value & mask) << at % 64;
}
/* Fields as ptxsim/memory/tensor_map.py reads them; argument order of the driver's cuTensorMapEncodeTiled. */
int _cuTensorMapEncodeTiled(uint64_t *map, unsigned type, uint32_t rank, void *address, const uint64_t *sizes,
                            const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                            int swizzle, int promotion, int fill) {
    static const char types[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 7, 8, 11, 12, 13}, atoms[] = {0, 0, 0, 0, 1, 2, 3};
    int wrong = type > 15 || rank < 1 || rank > 5 || (uintptr_t)address % 16 || interleave || swizzle < 0 ||
                swizzle > 6 || swizzle == 5;
    for (uint32_t k = 0; !wrong && k < rank; k++)
        wrong = !sizes[k] || sizes[k] > 1ull << 32 || !box[k] || box[k] > 256 || (steps && steps[k] != 1) ||
                (k && (strides[k - 1] % 16 || strides[k - 1] >> 40));
    if (wrong) {
        fprintf(stderr, "ptxsim: cuTensorMapEncodeTiled: the driver refuses this tensor map, or it is not simulated\n");
        return 1;
    }
    memset(map, 0, 128);
    put(map, 0, 64, (uintptr_t)address);
    put(map, 68, 3, rank - 1);
    put(map, 71, 4, types[type]);
    put(map, 77, 2, swizzle > 3 ? 3 : swizzle);
    put(map, 83, 2, atoms[swizzle]);
    for (uint32_t k = 0; k < rank; k++) {
        put(map, 256 + 32 * k, 32, sizes[k] - 1);
        put(map, 440 + 8 * k, 8, box[k] - 1);
        if (k + 1 == rank) break;
        put(map, 96 + 32 * k, 32, strides[k] >> 4);
        put(map, 224 + 4 * k, 4, strides[k] >> 36);
    }
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
