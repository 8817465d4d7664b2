/* tests/unit/mixture.h - tiny.h with a mixture of experts as its MLP. */
#ifndef PARE_TESTS_MIXTURE_H
#define PARE_TESTS_MIXTURE_H

#include "tests/unit/tiny.h"

enum { MIXTURE_EXPERTS = 5, MIXTURE_USED = 2, MIXTURE_WIDTH = 36 };

/* A model of the family, with a shared MLP where it has one. */
static inline pare_model mixture_of(pare_arena *a, const char *family, tiny_kind kind,
                                    size_t experts)
{
    pare_model m = tiny_model(a, kind);
    pare_config *const c = &m.config;
    c->arch = pare_arch_find(family);
    c->experts = experts;
    c->experts_used = MIXTURE_USED;
    c->expert_width = MIXTURE_WIDTH;
    c->expert_norm = c->arch->experts->norm == NULL;
    const bool shared = pare_arch_has(c->arch, PARE_ROLE_UP);
    c->intermediate = shared ? c->intermediate : 0;
    for (size_t b = 0; b < c->blocks; b++) {
        pare_block *const block = &m.block[b];
        for (pare_role r = PARE_ROLE_GATE; r < PARE_COMMON_ROLES && !shared; r++)
            block->linear[r] = (pare_linear){.name = NULL};
        block->router = tiny_dense(a, kind.dtype, 2000 + b, c->experts, c->hidden);
        if (c->arch->experts->shared_gate)
            block->shared_gate = tiny_dense(a, kind.dtype, 2010 + b, 1, c->hidden);
        block->expert = tiny_take(a, c->experts * PARE_ROLES, sizeof *block->expert);
        for (size_t part = 1; part < pare_block_parts(c); part++)
            for (pare_role r = PARE_ROLE_GATE; r < PARE_COMMON_ROLES; r++) {
                const uint64_t stream = 3000 + (b * 100 + part) * PARE_COMMON_ROLES + r;
                size_t n, k;
                pare_linear_shape(c, part, r, &n, &k);
                *pare_block_linear_mutable(block, part, r) =
                    kind.bits ? tiny_packed(a, kind, stream, n, k)
                              : tiny_dense(a, kind.dtype, stream, n, k);
            }
    }
    return m;
}

static inline pare_model mixture_model(pare_arena *a, const char *family, tiny_kind kind)
{
    return mixture_of(a, family, kind, MIXTURE_EXPERTS);
}

#endif
