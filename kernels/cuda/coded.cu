/* Codes of keys and values that leave the window: a thread per piece of a plane that is coded on
 * its own (pare_cuda_kv_units), which does what runtime/kv_code.c does. Bound: bytes in and out
 * over the bandwidth of the memory; far from it, a small part of a step. */
#include "kernels/cuda/coded.cuh"

static constexpr uint16_t NAN_F16 = 0x7e00;

/* pare_f16_of_scale */
static __device__ uint16_t f16_of_scale(float x)
{
    return f16_of_float(x < 0x1p-20f ? ceilf(x * 0x1p24f) * 0x1p-24f : x);
}

/* Least and largest of values, and whether all are finite. */
struct range {
    float least, most;
    bool finite;

    __device__ range(float first) : least(first), most(first), finite(true) {}

    __device__ void see(float v)
    {
        finite = finite && is_finite(v);
        least = v < least ? v : least;
        most = v > most ? v : most;
    }
};

/* How the values of a group become codes. */
struct coder {
    uint16_t scale_f16, low_f16;
    float scale, low, top;
    const float *levels;

    /* Between least and most in equal steps; levels: around their middle; `symmetric`: around 0. */
    __device__ void fit(const range &r, const pare_cuda_side &s)
    {
        top = (float)((1u << s.bits) - 1);
        levels = s.levels;
        float step = (r.most - r.least) / top, base = r.least;
        if (levels) {
            step = 0.5f * (r.most - r.least);
            base = 0.5f * (r.most + r.least);
        } else if (!s.lows) {
            step = (-r.least > r.most ? -r.least : r.most) / 127.0f;
            base = 0;
        }
        set(r.finite ? f16_of_scale(step) : NAN_F16, f16_of_float(base));
    }

    __device__ void set(uint16_t s, uint16_t l)
    {
        scale_f16 = s;
        low_f16 = l;
        scale = float_of_f16(s);
        low = float_of_f16(l);
    }

    __device__ uint32_t code(float x, bool symmetric) const
    {
        if (levels) {
            const float v = scale > 0 ? (x - low) / scale : 0;
            uint32_t above = 0;
            for (int i = 0; i + 1 < 8; i++)
                above += v > 0.5f * (levels[i] + levels[i + 1]);
            return above;
        }
        if (symmetric) {
            float q = scale > 0 ? rintf(x / scale) : 0;
            q = q > 127.0f ? 127.0f : q;
            return (uint32_t)((q < -127.0f ? -127.0f : q) + 128.0f);
        }
        float q = scale > 0 ? rintf((x - low) / scale) : 0;
        q = q > top ? top : q;
        return (uint32_t)(q > 0 ? q : 0);
    }
};

static __device__ void put_word(uint8_t *to, uint64_t word, uint32_t bits)
{
    for (uint32_t i = 0; i < bits; i++)
        to[i] = (uint8_t)(word >> 8 * i);
}

/* A group of channels of one token. */
static __device__ void code_token(const plane_of &p, const float *keys, uint64_t token,
                                  uint64_t entry)
{
    const pare_cuda_side &s = p.side;
    const uint64_t d = p.b.head_dim, first = entry * s.group;
    const uint64_t end = d - first < s.group ? d : first + s.group;
    range r(p.recent(token, first));
    coder to;
    for (uint64_t c = first; c < end; c++)
        r.see(p.recent(token, c));
    to.fit(r, s);
    for (uint64_t c = first; c < end; c += 8) {
        uint64_t word = 0;
        for (uint64_t i = 0; i < 8 && c + i < end; i++)
            word |= (uint64_t)to.code(p.recent(token, c + i), !s.lows) << i * s.bits;
        put_word(p.codes(token) + c / 8 * s.bits, word, s.bits);
    }
    /* Fixed scales of keys cannot say that a key is not finite, so its value does. */
    bool spoilt = false;
    if (keys) {
        const plane_of key = {p.kv.key, p.b, p.kv, keys, p.at};
        for (uint64_t c = 0; c < d; c++)
            spoilt = spoilt || !is_finite(key.recent(token, c));
    }
    s.scales[p.scale_at(token, first)] = spoilt ? NAN_F16 : to.scale_f16;
    if (s.lows)
        s.lows[p.scale_at(token, first)] = to.low_f16;
}

/* Channels c .. c + 7 of the tokens that share scales, each channel with its own. */
static __device__ void code_channels(const plane_of &p, uint64_t token, uint64_t c)
{
    const pare_cuda_side &s = p.side;
    const uint64_t n = p.b.head_dim - c < 8 ? p.b.head_dim - c : 8;
    coder to[8];
#pragma unroll
    for (uint64_t i = 0; i < 8; i++) {
        const uint64_t at = i < n ? c + i : c;
        range r(p.recent(token, at));
        for (uint64_t t = 0; t < s.tokens; t++)
            r.see(p.recent(token + t, at));
        to[i].fit(r, s);
        if (i < n) {
            s.scales[p.scale_at(token, at)] = to[i].scale_f16;
            s.lows[p.scale_at(token, at)] = to[i].low_f16;
        }
    }
    for (uint64_t t = 0; t < s.tokens; t++) {
        uint64_t word = 0;
#pragma unroll
        for (uint64_t i = 0; i < 8; i++)
            if (i < n)
                word |= (uint64_t)to[i].code(p.recent(token + t, c + i), false) << i * s.bits;
        put_word(p.codes(token + t) + c / 8 * s.bits, word, s.bits);
    }
}

/* Channels c .. c + 7 of one token by the scales that calibration fixed. */
static __device__ void code_fixed(const plane_of &p, uint64_t token, uint64_t c)
{
    const pare_cuda_side &s = p.side;
    uint64_t word = 0;
    for (uint64_t i = 0; i < 8 && c + i < p.b.head_dim; i++) {
        coder to;
        to.levels = s.levels;
        to.set(s.fixed_scale[p.scale_at(token, c + i)], s.fixed_low[p.scale_at(token, c + i)]);
        word |= (uint64_t)to.code(p.recent(token, c + i), false) << i * s.bits;
    }
    put_word(p.codes(token) + c / 8 * s.bits, word, s.bits);
}

/* The second side of the grid: keys, values. */
PARE_CUDA_KERNEL(kv_store, PARE_CUDA_BLOCK)
{
    const bool values = blockIdx.y == 1;
    const pare_cuda_side &s = values ? a.kv.value : a.kv.key;
    const uint64_t units = pare_cuda_kv_units(&a.kv, &s, &a.b), at = thread_index();
    if (at >= units * a.b.sequences * a.b.kv_heads)
        return;
    const plane_of p = {s, a.b, a.kv, values ? a.b.v : a.b.k, (uint32_t)(at / units)};
    const uint64_t begin = pare_cuda_coded(&a.kv, &s, a.b.start), unit = at % units;
    const uint64_t eights = (a.b.head_dim + 7) / 8;
    if (s.tokens == 1)
        code_token(p, values && s.levels ? a.b.k : nullptr, begin + unit / s.entries,
                   unit % s.entries);
    else if (s.tokens > 1)
        code_channels(p, begin + unit / eights * s.tokens, unit % eights * 8);
    else
        code_fixed(p, begin + unit / eights, unit % eights * 8);
}
