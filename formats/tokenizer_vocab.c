/* Hash tables of the tokenizer: open addressing, linear probing, at most half full. */
#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "formats/tokenizer_internal.h"

/* The smallest power of two that leaves half the slots free; 0 when it overflows. */
static size_t slots_for(size_t capacity)
{
    size_t n = 16;
    while (n && n / 2 < capacity)
        n = n > SIZE_MAX / 2 ? 0 : n * 2;
    return n;
}

pare_status pare__vocab_init(pare_arena *a, pare_tok_vocab *v, size_t capacity)
{
    const size_t slots = slots_for(capacity);
    if (slots == 0 || slots > UINT32_MAX)
        return pare_fail(a->cx, PARE_ENOMEM, "%zu tokens", capacity);
    *v = (pare_tok_vocab){.capacity = capacity, .mask = slots - 1};
    v->entries = PARE_NEW(a, pare_tok_entry, capacity);
    v->by_text = PARE_NEW(a, uint32_t, slots);
    v->by_id = PARE_NEW(a, uint32_t, slots);
    return v->entries && v->by_text && v->by_id ? PARE_OK : PARE_ENOMEM;
}

static uint64_t mix(uint64_t x)
{
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ (x >> 32);
}

/* The slot of the text: free, or of the entry that has it. */
static size_t text_slot(const pare_tok_vocab *v, const char *at, size_t len)
{
    size_t i = (size_t)XXH3_64bits(at, len) & v->mask;
    for (; v->by_text[i]; i = (i + 1) & v->mask) {
        const pare_tok_slice *const s = &v->entries[v->by_text[i] - 1].text;
        if (s->len == len && memcmp(s->at, at, len) == 0)
            break;
    }
    return i;
}

static size_t id_slot(const pare_tok_vocab *v, int32_t id)
{
    size_t i = (size_t)mix((uint64_t)(uint32_t)id) & v->mask;
    while (v->by_id[i] && v->entries[v->by_id[i] - 1].id != id)
        i = (i + 1) & v->mask;
    return i;
}

const pare_tok_entry *pare__vocab_by_text(const pare_tok_vocab *v, const char *at, size_t len)
{
    const uint32_t i = v->by_text[text_slot(v, at, len)];
    return i ? &v->entries[i - 1] : NULL;
}

const pare_tok_entry *pare__vocab_by_id(const pare_tok_vocab *v, int32_t id)
{
    const uint32_t i = v->by_id[id_slot(v, id)];
    return i ? &v->entries[i - 1] : NULL;
}

const pare_tok_entry *pare__vocab_add(pare_tok_vocab *v, pare_tok_slice text, int32_t id)
{
    const size_t by_text = text_slot(v, text.at, text.len), by_id = id_slot(v, id);
    if (v->by_text[by_text])
        return &v->entries[v->by_text[by_text] - 1];
    if (v->by_id[by_id])
        return &v->entries[v->by_id[by_id] - 1];
    v->entries[v->count++] = (pare_tok_entry){text, id};
    v->by_text[by_text] = v->by_id[by_id] = (uint32_t)v->count;
    return NULL;
}

pare_status pare__merges_init(pare_arena *a, pare_tok_merges *m, size_t capacity)
{
    const size_t slots = slots_for(capacity);
    m->slots = slots ? PARE_NEW(a, pare_tok_merge, slots) : NULL;
    if (!m->slots)
        return pare_fail(a->cx, PARE_ENOMEM, "%zu merges", capacity);
    m->mask = slots - 1;
    for (size_t i = 0; i < slots; i++)
        m->slots[i].left = -1;
    return PARE_OK;
}

static pare_tok_merge *merge_slot(const pare_tok_merges *m, int32_t left, int32_t right)
{
    size_t i = (size_t)mix((uint64_t)(uint32_t)left << 32 | (uint32_t)right) & m->mask;
    while (m->slots[i].left >= 0 && (m->slots[i].left != left || m->slots[i].right != right))
        i = (i + 1) & m->mask;
    return &m->slots[i];
}

void pare__merges_put(pare_tok_merges *m, pare_tok_merge merge)
{
    *merge_slot(m, merge.left, merge.right) = merge;
}

const pare_tok_merge *pare__merges_find(const pare_tok_merges *m, int32_t left, int32_t right)
{
    const pare_tok_merge *const slot = merge_slot(m, left, right);
    return slot->left >= 0 ? slot : NULL;
}
