/* Activations and caps: a thread per value. Of SiLU with `up` in F32 as the kernel silu_f32, of the
 * others in double as pare_activate.
 * Bound: bytes in and out over the bandwidth of the memory; in double, on chips that have few units
 * for it, those. */
#include "kernels/cuda/device.cuh"

enum { SILU, GELU, GELU_TANH, RELU, RELU2 }; /* as pare_act of runtime/arch.h */

/* Phi(x) of runtime/ops.c. */
static __device__ double normal_share(double x)
{
    double z = fabs(x) * 0.7071067811865476;
    z = z > 6.5 ? 6.5 : z;
    const double t = 2.0 / (2.0 + z);
    double sum = 0.0;
    sum = sum * t + 0.007672960130259333;
    sum = sum * t + -0.08984423573736824;
    sum = sum * t + 0.43413787682454263;
    sum = sum * t + -1.1519850884986265;
    sum = sum * t + 1.8308567592446177;
    sum = sum * t + -1.7511682637189534;
    sum = sum * t + 0.9961353167010734;
    sum = sum * t + -0.4602946476661129;
    sum = sum * t + 0.2227257162234952;
    sum = sum * t + 0.14698355601349272;
    sum = sum * t + 0.25091527321419294;
    sum = sum * t + 0.28175745875117136;
    sum = sum * t + 0.2821073185039437;
    const double half = 0.5 * exp_double(-z * z) * t * sum;
    return x < 0 ? half : 1.0 - half;
}

static __device__ double activated(uint32_t act, double x)
{
    switch (act) {
    case SILU: return x / (1.0 + exp_double(-x));
    case GELU: return x * normal_share(x);
    case GELU_TANH:
        return x / (1.0 + exp_double(-2.0 * 0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case RELU: return x < 0 ? 0 : x;
    case RELU2: return x < 0 ? 0 : x * x;
    }
    return x;
}

PARE_CUDA_KERNEL(activate, PARE_CUDA_BLOCK)
{
    const uint64_t i = thread_index();
    if (i >= a.n)
        return;
    const float x = a.gate[i];
    if (a.act == SILU && a.up) {
        a.y[i] = x / (1.0f + exp_float(-x)) * a.up[i];
        return;
    }
    const double y = activated(a.act, (double)x);
    a.y[i] = (float)(a.up ? y * (double)a.up[i] : y);
}

PARE_CUDA_KERNEL(cap, PARE_CUDA_BLOCK)
{
    const uint64_t i = thread_index();
    const double twice = 2.0 / a.cap;
    if (i < a.n)
        a.x[i] = (float)(a.cap - 2.0 * a.cap / (exp_double((double)a.x[i] * twice) + 1.0));
}
