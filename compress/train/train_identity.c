/* Which training an unfinished one is: its inputs, recipe and tokens, in the journal of the work.
 */
#include <stdio.h>
#include <string.h>

#include "compress/output/output.h"
#include "compress/text/version.h"
#include "compress/train/train_internal.h"
#include "formats/hash.h"
#include "formats/sha256.h"
#include "runtime/file.h"

#define JOURNAL_FORMAT "5"

/* The files of a model, with their digests. The names of those of a teacher say so. */
static pare_status hash_checkpoint(pare_training *t, const pare_checkpoint *ck)
{
    const bool teacher = ck == &t->teacher;
    const size_t count = ck->files + (ck->config_file.data != NULL);
    pare_file *const file = PARE_NEW(&t->scratch, pare_file, count);
    char(*const hex)[PARE_SHA256_HEX] = pare_arena_take(&t->scratch, count, sizeof *hex);
    if (!file || !hex)
        return PARE_ENOMEM;
    for (size_t i = 0; i < ck->files; i++)
        file[i] = ck->file[i];
    if (count > ck->files)
        file[ck->files] = ck->config_file;
    PARE_TRY(pare_sha256_files(t->cx, file, count, hex));
    for (size_t i = 0; i < count; i++) {
        const char *const path = i < ck->files ? file[i].path : "config.json";
        const char *const slash = strrchr(path, '/');
        pare_file_digest *const d = &t->input[t->inputs++];
        const char *const name = slash ? slash + 1 : path;
        *d = (pare_file_digest){.file = teacher ? pare_path_join(t->a, "teacher", name) : name,
                                .bytes = file[i].bytes};
        if (!d->file)
            return PARE_ENOMEM;
        memcpy(d->sha256, hex[i], sizeof d->sha256);
    }
    return PARE_OK;
}

static pare_status hash_inputs(pare_training *t)
{
    char *text;
    size_t len;
    t->input = PARE_NEW(t->a, pare_file_digest, t->model.files + t->teacher.files + 3);
    if (!t->input)
        return PARE_ENOMEM;
    if (t->fresh) {
        PARE_TRY(pare_file_read(t->cx, t->a, t->model_path, 16 << 20, &text, &len));
        pare_file_digest *const d = &t->input[t->inputs++];
        *d = (pare_file_digest){.file = "config.json", .bytes = len};
        PARE_TRY(pare_sha256_hex(t->cx, text, len, d->sha256));
    } else {
        PARE_TRY(hash_checkpoint(t, &t->model));
    }
    return t->own_teacher ? hash_checkpoint(t, &t->teacher) : PARE_OK;
}

/* The fingerprint, and the hash of what a saved state must agree with. */
typedef struct print {
    pare_json_writer *w;
    pare_xxh3_state hash;
    size_t files, lines;
} print;

static void put(print *p, const char *key, const char *value)
{
    pare_json_put_text(p->w, key, value);
    pare_xxh3_add(&p->hash, value, strlen(value) + 1);
}

static void put_file(print *p, const char *name, const char *sha256)
{
    char key[64], value[512];
    (void)snprintf(key, sizeof key, PARE_JOURNAL_FILE "%zu", ++p->files);
    (void)snprintf(value, sizeof value, "%s sha256 %s", name, sha256);
    put(p, key, value);
}

/* What goes along with the weights. */
static pare_status put_companions(pare_training *t, print *p)
{
    char hex[PARE_SHA256_HEX], *text;
    size_t len;
    if (t->recipe.vocabulary || (t->adapter && !t->adapter->merged))
        return PARE_OK; /* it follows from the text, or nothing goes along */
    for (size_t i = 0; pare_companions[i]; i++) {
        const pare_mark mark = pare_arena_mark(&t->scratch);
        pare_status s =
            pare_checkpoint_companion(&t->model, &t->scratch, pare_companions[i], &text, &len);
        const bool there = s == PARE_OK && text;
        if (there)
            s = pare_sha256_hex(t->cx, text, len, hex);
        pare_arena_rewind(&t->scratch, mark);
        PARE_TRY(s);
        if (there)
            put_file(p, pare_companions[i], hex);
    }
    return PARE_OK;
}

/* The recipe without what has no part in the steps: how weights are stored, how often states are
 * saved. */
static pare_status recipe_of_steps(pare_training *t, char **text)
{
    pare_train_recipe r = t->recipe;
    size_t len;
    r.store = PARE_STORE_AUTO;
    for (size_t i = 0; t->params[i].name; i++)
        if (strcmp(t->params[i].name, "save") == 0)
            r.value[i] = t->params[i].fallback;
    return pare_train_recipe_normalize(t->cx, t->a, &r, t->params, true, text, &len);
}

/* The recipe is cut into its lines. */
static void put_lines(print *p, char *recipe)
{
    char key[64];
    for (char *line = recipe, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        (void)snprintf(key, sizeof key, PARE_JOURNAL_RECIPE "%zu", ++p->lines);
        put(p, key, line);
    }
}

static void put_replaced(const pare_training *t, pare_json_writer *w)
{
    pare_json_put_text(w, PARE_JOURNAL_REPLACES,
                       t->replaces ? "a finished output" : PARE_JOURNAL_NO_OUTPUT);
}

/* What must be equal for an unfinished run to be continued. The output that it replaces may have
 * gone away meanwhile, and has no part in the hash. */
static pare_status fingerprint(pare_training *t, pare_json_writer *w, const char **text)
{
    char *recipe;
    size_t len;
    print p = {.w = w};
    PARE_TRY(recipe_of_steps(t, &recipe));
    pare_xxh3_begin(&p.hash);
    pare_json_open_object(w, NULL);
    put(&p, "program", "pare " PARE_VERSION);
    put(&p, PARE_JOURNAL_TRAINING, "format " JOURNAL_FORMAT);
    for (size_t i = 0; i < t->inputs; i++)
        put_file(&p, t->input[i].file, t->input[i].sha256);
    PARE_TRY(put_companions(t, &p));
    put(&p, PARE_JOURNAL_TOKENS, t->windows_sha256);
    put(&p, "tokens held out", t->held_out_sha256);
    put_lines(&p, recipe);
    put_replaced(t, w);
    pare_json_close(w);
    pare_xxh3_end(&p.hash, t->asked);
    return pare_json_writer_finish(w, text, &len);
}

/* An unfinished training that saved no state is worth nothing, whatever its settings were. Only
 * --restart deletes work of compress. */
static pare_status begins_anew(pare_training *t, bool *anew)
{
    char *const state = pare_path_join(t->a, t->place.partial, PARE_TRAINING_STATE);
    pare_journal_kind kind;
    if (!state)
        return PARE_ENOMEM;
    PARE_TRY(pare_journal_look(t->cx, t->a, t->place.partial, &kind));
    *anew = t->job->restart || (kind != PARE_JOURNAL_COMPRESS && !pare_path_is_file(state));
    return PARE_OK;
}

static pare_status open_journal(pare_training *t)
{
    pare_json_writer *w;
    pare_journal_record *record;
    size_t count;
    const char *text;
    bool anew;
    PARE_TRY(begins_anew(t, &anew));
    PARE_TRY(pare_output_make_work(t->cx, t->a, t->place.partial, &t->made));
    PARE_TRY(pare_json_writer_new(t->cx, &w));
    pare_status s = fingerprint(t, w, &text);
    if (s == PARE_OK && anew)
        s = pare_journal_restart(t->cx, t->place.partial, text, &t->journal);
    else if (s == PARE_OK)
        s = pare_journal_open(t->cx, t->a, t->place.partial, text, &t->journal, &record, &count);
    pare_json_writer_free(w);
    PARE_TRY(s);
    return pare_owned_discard(t->cx, t->place.partial, PARE_OUTPUT_ARTIFACT,
                              anew || pare_journal_lost(t->journal) ? PARE_OWNED_BUT_JOURNAL
                                                                    : PARE_OWNED_BUT_STATE);
}

pare_status pare__train_claim_work(pare_training *t)
{
    PARE_TRY(hash_inputs(t));
    return open_journal(t);
}

pare_status pare__train_check_work(pare_training *t)
{
    pare_json_writer *w;
    const char *text;
    char *recipe;
    size_t len;
    bool anew;
    PARE_TRY(begins_anew(t, &anew));
    if (anew)
        return PARE_OK;
    PARE_TRY(recipe_of_steps(t, &recipe));
    PARE_TRY(pare_json_writer_new(t->cx, &w));
    print p = {.w = w};
    pare_xxh3_begin(&p.hash);
    pare_json_open_object(w, NULL);
    put(&p, PARE_JOURNAL_TRAINING, "format " JOURNAL_FORMAT);
    put_lines(&p, recipe);
    put_replaced(t, w);
    pare_json_close(w);
    pare_status s = pare_json_writer_finish(w, &text, &len);
    if (s == PARE_OK)
        s = pare_journal_check_recipe(t->cx, t->a, t->place.partial, text);
    pare_json_writer_free(w);
    return s;
}
