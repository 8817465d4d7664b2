/* tests/unit/outputs.h - small directories that look like finished outputs, in a folder. */
#ifndef PARE_TESTS_OUTPUTS_H
#define PARE_TESTS_OUTPUTS_H

#include "compress/output/inventory.h"
#include "compress/output/journal.h"
#include "compress/output/output_swap.h"
#include "tests/unit/job.h"

/* A context, an arena and a folder with an output in it. */
typedef struct outputs {
    pare_ctx cx;
    pare_arena a;
    job_place root;
    pare_output_place place; /* of ROOT/out */
    pare_teller teller;      /* into `told` */
    char told[1024];         /* the last line */
} outputs;

static inline void outputs_hear(void *self, const char *text)
{
    outputs *const o = self;
    (void)snprintf(o->told, sizeof o->told, "%s", text);
}

static inline void outputs_begin(outputs *o, pare_output_kind kind)
{
    *o = (outputs){.root = {"outputs.XXXXXX"}};
    o->teller = (pare_teller){outputs_hear, o};
    ck_assert_ptr_nonnull(mkdtemp(o->root.root));
    pare_ctx_init(&o->cx);
    ck_assert_int_eq(pare_arena_init(&o->cx, &o->a, 0), PARE_OK);
    ck_assert_int_eq(pare_output_place_make(&o->a, kind, job_path(&o->root, "out/"), &o->place),
                     PARE_OK);
}

static inline void outputs_end(outputs *o)
{
    job_remove_directory(o->root.root);
    pare_arena_release(&o->a);
    ck_assert_uint_eq(o->cx.live_bytes, 0);
}

static inline void outputs_put(outputs *o, const char *name, const char *text)
{
    FILE *const f = fopen(job_path(&o->root, name), "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert(fputs(text, f) >= 0 && fclose(f) == 0);
}

static inline bool outputs_has(const outputs *o, const char *name)
{
    struct stat st;
    return lstat(job_path(&o->root, name), &st) == 0;
}

static inline bool outputs_holds(outputs *o, const char *name, const char *text)
{
    char *is;
    size_t len;
    ck_assert_msg(pare_file_read(&o->cx, &o->a, job_path(&o->root, name), 1 << 20, &is, &len) ==
                      PARE_OK,
                  "%s", o->cx.what);
    return strcmp(is, text) == 0;
}

/* A finished directory; `text` is its config.json. */
static inline void outputs_finish(outputs *o, const char *name, const char *text)
{
    char path[128];
    const bool artifact = o->place.kind == PARE_OUTPUT_ARTIFACT;
    ck_assert_int_eq(mkdir(job_path(&o->root, name), 0777), 0);
    (void)snprintf(path, sizeof path, "%s/config.json", name);
    outputs_put(o, path, text);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", name);
    outputs_put(o, path, "weights");
    (void)snprintf(path, sizeof path, "%s/%s", name,
                   artifact ? "manifest.json" : "pare-export.json");
    outputs_put(o, path,
                artifact ? "{\"pare\": \"1\", \"format\": 1, \"outputs\": []}"
                         : "{\"program\": \"pare 1\", \"format\": \"gptq\"}");
    ck_assert_int_eq(pare_inventory_write(&o->cx, &o->a, job_path(&o->root, name), NULL, 0),
                     PARE_OK);
}

/* What compress or export leaves in a directory when it is stopped. */
static inline void outputs_begin_work(outputs *o, const char *path)
{
    pare_journal *j;
    if (o->place.kind != PARE_OUTPUT_ARTIFACT) {
        ck_assert_int_eq(pare_owned_mark_unfinished(&o->cx, path), PARE_OK);
        return;
    }
    ck_assert_int_eq(pare_journal_restart(&o->cx, path,
                                          "{\"program\": \"pare 1\", "
                                          "\"recipe line 1\": \"pare: 1\"}",
                                          &j),
                     PARE_OK);
    pare_journal_close(&o->cx, j);
}

/* A status with a message that holds `says`. */
static inline void outputs_check(outputs *o, pare_status s, pare_status expected, const char *says)
{
    ck_assert_msg(s == expected, "%d: %s", (int)s, o->cx.what);
    ck_assert_msg(strstr(o->cx.what, says), "\"%s\" lacks \"%s\"", o->cx.what, says);
    pare_ctx_clear(&o->cx);
}

#endif
