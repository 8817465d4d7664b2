#define _GNU_SOURCE /* memmem */
/* Statistics that an older pare kept: `cold` of experts had a word that is gone. */
#include "tests/unit/moe_job.h"

#define KEEP(tail)                                                                                 \
    "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 12, window: 64, keep: "     \
    "s.h5}\npasses:\n" tail
#define FROM(tail) "pare: 1\nmodel: model\ncalibration: {from: s.h5}\npasses:\n" tail
#define GPTQ       "  - gptq: {bits: 4, group: 32}\n"

static const char now[] = "\"cold\": \"fill\"", was[] = "\"cold\": \"all_tokens\"";

static char *find(char *text, size_t len, const char *what)
{
    return memmem(text, len, what, strlen(what));
}

/* The checksum that HDF5 has behind a chunk: sums of words, high byte first, modulo 65535. */
static uint32_t fletcher(const char *data, size_t len)
{
    uint32_t one = 0, two = 0;
    for (size_t i = 0; i < len; i += 2) {
        const unsigned char high = (unsigned char)data[i];
        const unsigned char low = i + 1 < len ? (unsigned char)data[i + 1] : 0;
        one = (one + (uint32_t)(high << 8 | low)) % 65535;
        two = (two + one) % 65535;
    }
    return two << 16 | one;
}

static bool is_sum(const char *at, uint32_t sum)
{
    bool is = true;
    for (size_t i = 0; i < 4; i++)
        is &= (unsigned char)at[i] == (sum >> 8 * i & 255);
    return is;
}

/* Puts the old word into the settings in `text`; indentation gives way, so that nothing moves. */
static void age_text(char *text, size_t len)
{
    enum { MORE = sizeof was - sizeof now };
    size_t spaces = 0, to = 0;
    char *const named = find(text, len, "\"format\": \"pare statistics\"");
    ck_assert_ptr_nonnull(named);
    char *first = named;
    while (*first != '{')
        first--;
    char *const at = find(first, len - (size_t)(first - text), now);
    ck_assert_ptr_nonnull(at);
    char *end = memchr(at, '}', 16);
    ck_assert_ptr_nonnull(end);
    end += end[1] == '\n' ? 2 : 1;
    ck_assert(is_sum(end, fletcher(first, (size_t)(end - first))));
    for (char *c = first; c < at; c++)
        if (*c == ' ' && spaces < MORE && (c[-1] == '\n' || c[-1] == ' '))
            spaces++;
        else
            first[to++] = *c;
    ck_assert_uint_eq(spaces, MORE);
    memcpy(first + to, was, sizeof was - 1);
    const uint32_t sum = fletcher(first, (size_t)(end - first));
    for (size_t i = 0; i < 4; i++)
        end[i] = (char)(sum >> 8 * i & 255);
}

static void age(void)
{
    pare_ctx cx;
    pare_arena a;
    char *text;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_file_read(&cx, &a, job_path(&place, "s.h5"), 1 << 28, &text, &len),
                     PARE_OK);
    age_text(text, len);
    ck_assert_int_eq(pare_file_write(&cx, job_path(&place, "s.h5"), text, len), PARE_OK);
    pare_arena_release(&a);
}

static void check_weights(const char *first, const char *second)
{
    const char *const output[] = {first, second};
    pare_ctx cx;
    pare_arena a;
    char *text[2];
    size_t len[2];
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    for (size_t i = 0; i < 2; i++) {
        char name[128];
        (void)snprintf(name, sizeof name, "%s/packed-00001-of-00001.safetensors", output[i]);
        ck_assert_int_eq(
            pare_file_read(&cx, &a, job_path(&place, name), 1 << 28, &text[i], &len[i]), PARE_OK);
    }
    ck_assert_uint_eq(len[0], len[1]);
    ck_assert_mem_eq(text[0], text[1], len[0]);
    pare_arena_release(&a);
}

START_TEST(statistics_of_a_dense_model_are_read)
{
    tiny_model m = tiny_model_default();
    place = job_make(&m);
    job_recipe(&place, KEEP(GPTQ));
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "first"}, NULL), PARE_OK);
    age();
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "second"}, NULL), PARE_OK);
    check_weights("first", "second");
    job_recipe(&place, FROM(GPTQ));
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "third"}, NULL), PARE_OK);
    check_weights("first", "third");
    job_remove_directory(place.root);
}
END_TEST

/* What experts with too few tokens saw then is not what they see now. */
START_TEST(those_of_experts_are_kept_anew)
{
    char what[1024];
    setup_family("qwen2_moe");
    job_recipe(&place, KEEP(GPTQ));
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "first"}, NULL), PARE_OK);
    age();
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "second"}, what), PARE_EEXISTS);
    ck_assert_msg(strstr(what, "cold of experts: \"all_tokens\" there, \"fill\" here"), "%s", what);
    job_recipe(&place, FROM(GPTQ));
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "third"}, what), PARE_EFORMAT);
    ck_assert_msg(strstr(what, "\"all_tokens\" is none that this version of pare knows; keep the "
                               "statistics anew"),
                  "%s", what);
    job_remove_directory(place.root);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("kept_job");
    TCase *const t = tcase_create("kept_job");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, statistics_of_a_dense_model_are_read);
    tcase_add_test(t, those_of_experts_are_kept_anew);
    suite_add_tcase(s, t);
    return unit_main(s);
}
