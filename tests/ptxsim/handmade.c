/* What an exported CuTe DSL object does, by hand: it checks its arguments, describes itself when they do not fit, and
 * launches kernels through the runtime's entry points. scale(x, y, n, stream) launches `scale` over n floats; gather(
 * table, y, n, stream) launches `gather`, whose table holds the addresses of n floats' arrays. */
#include <stddef.h>
#include <stdint.h>

typedef struct { int32_t type; uint32_t zero; uint64_t value; } any;
typedef struct {
    void *data; int32_t device_type, device_id, ndim; uint8_t code, bits; uint16_t lanes;
    int64_t *shape, *strides; uint64_t byte_offset;
} tensor;
typedef struct { uint32_t x, y, z; } dim3_;
typedef struct { dim3_ grid, block; size_t shared; void *stream; void *attributes; uint32_t count; } config;

extern int _cudaLaunchKernelEx(const void *config, void *kernel, void **params);
extern void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);

static int refuse(const char *message) { TVMFFIErrorSetRaisedFromCStr("TypeError", message); return -1; }

static int launch(const char *kernel, any *args, int32_t count, const char *signature, int bits) {
    if (count != 4) return refuse(signature);
    for (int i = 0; i < 2; i++)
        if (args[i].type != 7 && args[i].type != 4) return refuse("an argument is no tensor");
    tensor *x = (tensor *)args[0].value, *y = (tensor *)args[1].value;
    if (args[0].type == 7 && x->bits != bits) return refuse("Mismatched Tensor on argument #0: expected another type");
    void *from = args[0].type == 7 ? x->data : (void *)args[0].value, *to = y->data;
    uint32_t n = (uint32_t)args[2].value;
    void *params[] = {&from, &to, &n};
    config c = {{(n + 31) / 32, 1, 1}, {32, 1, 1}, 0, 0, 0, 0};
    return _cudaLaunchKernelEx(&c, (void *)kernel, params);
}

int __tvm_ffi_scale(void *self, any *args, int32_t count, any *result) {
    return launch("scale", args, count,
                  "Expects 4 parameters when calling: `scale(x: Tensor([n0], float32), y: Tensor([n0], float32), "
                  "n: int32, stream: Stream)`", 32);
}

int __tvm_ffi_gather(void *self, any *args, int32_t count, any *result) {
    return launch("gather", args, count,
                  "Expects 4 parameters when calling: `gather(table: Tensor([n0], int64), y: Tensor([n0], float32), "
                  "n: int32, stream: Stream)`", 64);
}
