/* A config.json of arbitrary bytes. What is accepted must be within the bounds of the runtime. */
#include <math.h>

#include "formats/checkpoint.h"
#include "tests/fuzz/fuzz.h"

enum { CAP = 8192, LARGEST = 1 << 24 };

static void check_size(size_t n, size_t max)
{
    require(n >= 1 && n <= max);
}

static void check(const pare_config *c)
{
    check_size(c->hidden, LARGEST);
    require(c->arch != NULL);
    if (pare_arch_has(c->arch, PARE_ROLE_UP))
        check_size(c->intermediate, LARGEST);
    else
        require(c->intermediate == 0);
    if (c->arch->experts) {
        check_size(c->experts, PARE_EXPERTS_MAX);
        check_size(c->experts_used, c->experts);
        check_size(c->expert_width, LARGEST);
    } else {
        require(c->experts == 0 && c->experts_used == 0 && c->expert_width == 0);
    }
    check_size(c->blocks, 4096);
    check_size(c->vocab, LARGEST);
    check_size(c->context, LARGEST);
    check_size(c->kv_heads, c->heads);
    check_size(c->heads * c->head_dim, LARGEST);
    require(c->heads % c->kv_heads == 0 && c->head_dim % 2 == 0);
    require(isfinite(c->norm_eps) && c->norm_eps > 0 && isfinite(c->rope.theta));
    require(isfinite(c->rope_local.theta) && c->rope_local.theta >= 0);
    if (c->rope.kind != PARE_ROPE_LINEAR)
        require(c->rope.factor > 0 && c->rope.original_context >= 1);
    if (c->rope.kind == PARE_ROPE_LLAMA3)
        require(c->rope.factor >= 1 && c->rope.high_freq_factor >= c->rope.low_freq_factor);
    require(c->rope.kind != PARE_ROPE_LONGROPE || c->rope.divisor[1][c->rope.rotary / 2 - 1] > 0);
    require(c->eos_ids <= sizeof c->eos_id / sizeof c->eos_id[0]);
    require(c->bos_id < (int64_t)c->vocab && c->bos_id >= -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    pare_ctx cx;
    fuzz_ctx_init(&cx);
    pare_json *json = NULL;
    pare_config config;
    pare_status s = pare_json_parse(&cx, "fuzz", (const char *)bytes, len, CAP, &json);
    if (s == PARE_OK)
        s = pare_config_parse(&cx, "fuzz", json, &config);
    if (s == PARE_OK)
        check(&config);
    require((s == PARE_OK) == (cx.what[0] == '\0'));
    pare_json_free(json);
    require(cx.live_bytes == 0);
    return 0;
}
