/* What may be replaced or removed: finished outputs and unfinished work as pare left them. */
#include "compress/output/owned_files.h"
#include "tests/unit/outputs.h"

static const pare_output_kind kinds[] = {PARE_OUTPUT_ARTIFACT, PARE_OUTPUT_EXPORT};

/* What somebody does to a finished directory, and what is said of it. */
static const struct {
    const char *file, *text; /* text NULL: the file goes; "/": a directory; "@": a link */
    const char *says;
} attacks[] = {{"out/notes.txt", "mine", "out/notes.txt: is no file of an"},
               {"out/merges.txt", "mine", "out/merges.txt: is not listed in SHA256SUMS"},
               {"out/sub", "/", "out/sub: is a directory"},
               {"out/vocab.json", "@", "out/vocab.json: is no regular file"},
               {"out/config.json", "edited", "out/config.json: differs from its SHA-256"},
               {"out/config.json", NULL, "out/config.json: is missing"},
               {"out/model.safetensors", NULL, "out/model.safetensors: is missing"},
               {"out/config.json.tmp", "mine", "out/config.json.tmp: is no file of an"},
               {"out/journal", "dear diary", "out/journal: is no file of an"},
               {"out/SHA256SUMS", "none", "out/SHA256SUMS: is damaged"},
               {"out/SHA256SUMS", NULL, "out/SHA256SUMS: is missing"}};
enum { ATTACKS = sizeof attacks / sizeof *attacks };

START_TEST(a_finished_output_is_replaced_only_as_pare_left_it)
{
    outputs o;
    outputs_begin(&o, kinds[_i % 2]);
    outputs_finish(&o, "out", "first");
    const size_t live = o.cx.live_bytes;
    const pare_mark mark = pare_arena_mark(&o.a);
    bool ours;
    ck_assert_int_eq(pare_owned_marked(&o.cx, &o.a, o.place.output, kinds[_i % 2], &ours, NULL),
                     PARE_OK);
    ck_assert(ours);
    ck_assert_uint_eq(o.cx.live_bytes, live); /* nothing of the file is kept */
    ck_assert_uint_eq(pare_arena_mark(&o.a).used, mark.used);
    ck_assert_int_eq(pare_output_place_check(&o.cx, &o.a, &o.place), PARE_OK);
    const char *const text = attacks[_i / 2].text;
    char path[512];
    (void)snprintf(path, sizeof path, "%s", job_path(&o.root, attacks[_i / 2].file));
    if (!text)
        ck_assert_int_eq(unlink(path), 0);
    else if (text[0] == '/')
        ck_assert_int_eq(mkdir(path, 0777), 0);
    else if (text[0] == '@')
        ck_assert_int_eq(symlink("config.json", path), 0);
    else
        outputs_put(&o, attacks[_i / 2].file, text);
    outputs_check(&o, pare_output_place_check(&o.cx, &o.a, &o.place), PARE_EEXISTS,
                  attacks[_i / 2].says);
    outputs_end(&o);
}
END_TEST

START_TEST(an_output_that_may_not_be_read_is_told_as_such)
{
    outputs o;
    char why[PARE_OWNED_WHY], out[512];
    bool ours;
    outputs_begin(&o, kinds[_i]);
    outputs_finish(&o, "out", "first");
    (void)snprintf(out, sizeof out, "%s", job_path(&o.root, "out"));
    const uid_t user = geteuid();
    ck_assert(chmod(o.root.root, 0755) == 0 && chmod(out, 0) == 0);
    ck_assert_int_eq(user ? 0 : seteuid(65534), 0); /* root may read everything */
    ck_assert_int_eq(pare_owned_marked(&o.cx, &o.a, o.place.output, kinds[_i], &ours, why),
                     PARE_OK);
    ck_assert_int_eq(user ? 0 : seteuid(user), 0);
    ck_assert_int_eq(chmod(out, 0755), 0);
    ck_assert(!ours);
    ck_assert_str_eq(why, "cannot be read, its permissions do not allow it");
    outputs_end(&o);
}
END_TEST

START_TEST(other_directories_and_files_are_no_outputs)
{
    outputs o;
    outputs_begin(&o, kinds[_i]);
    outputs_check(&o, pare_output_place_check(&o.cx, &o.a, &o.place), PARE_EEXISTS,
                  "does not exist");
    outputs_put(&o, "out", "a letter");
    outputs_check(&o, pare_output_place_check(&o.cx, &o.a, &o.place), PARE_EEXISTS,
                  "is no directory");
    ck_assert_int_eq(unlink(o.place.output), 0);
    ck_assert_int_eq(mkdir(o.place.output, 0777), 0);
    outputs_put(&o, _i == 0 ? "out/manifest.json" : "out/pare-export.json", "{\"name\": \"app\"}");
    ck_assert_int_eq(pare_inventory_write(&o.cx, &o.a, o.place.output, NULL, 0), PARE_OK);
    outputs_check(&o, pare_output_place_check(&o.cx, &o.a, &o.place), PARE_EEXISTS,
                  _i == 0 ? "is no artifact of pare" : "is no export of pare");
    job_remove_directory(o.place.output);
    outputs_finish(&o, "elsewhere", "first");
    ck_assert_int_eq(symlink("elsewhere", o.place.output), 0);
    outputs_check(&o, pare_output_place_check(&o.cx, &o.a, &o.place), PARE_EEXISTS,
                  "is a symbolic link");
    ck_assert(outputs_has(&o, "elsewhere/config.json"));
    outputs_end(&o);
}
END_TEST

/* Who put notes on the list has not made them a file of pare. */
START_TEST(a_listed_file_with_a_name_that_pare_does_not_give_is_foreign)
{
    outputs o;
    outputs_begin(&o, PARE_OUTPUT_ARTIFACT);
    outputs_finish(&o, "out", "first");
    outputs_put(&o, "out/notes.txt", "mine");
    ck_assert_int_eq(pare_inventory_write(&o.cx, &o.a, o.place.output, NULL, 0), PARE_OK);
    outputs_check(&o, pare_output_place_check(&o.cx, &o.a, &o.place), PARE_EEXISTS,
                  "out/notes.txt: is no file of an artifact of pare");
    outputs_end(&o);
}
END_TEST

/* What lies in OUTPUT.partial, and what it is taken for; says NULL: accepted. */
static const struct {
    const char *file[3], *text[3];
    const char *says;
    pare_owned_state state;
} partials[] = {
    {{0}, {0}, NULL, PARE_OWNED_NOTHING},
    {{"journal"}, {""}, NULL, PARE_OWNED_LOST},
    {{"journal", "config.json.tmp", "model.safetensors"},
     {"PJ01", "half", "some"},
     NULL,
     PARE_OWNED_LOST},
    {{"journal", "thesis.tex"}, {"PJ01", "mine"}, "thesis.tex: is no file of", PARE_OWNED_NOTHING},
    {{"journal", "config.json"},
     {"dear diary", "mine"},
     "journal: is no journal of pare",
     PARE_OWNED_NOTHING},
    {{"config.json"}, {"mine"}, "config.json: lies beside no journal", PARE_OWNED_NOTHING},
    {{"README", "config.json"}, {"mine", "{}"}, "README: is no file of", PARE_OWNED_NOTHING},
    {{"SHA256SUMS", "config.json"},
     {"", "mine"},
     "SHA256SUMS: lies beside no journal",
     PARE_OWNED_NOTHING},
    {{"SHA256SUMS"}, {""}, "SHA256SUMS: lies beside no journal", PARE_OWNED_NOTHING}};
enum { PARTIALS = sizeof partials / sizeof *partials };

START_TEST(work_is_told_from_what_is_not_of_pare)
{
    outputs o;
    pare_owned_state state;
    outputs_begin(&o, kinds[_i % 2]);
    ck_assert_int_eq(mkdir(o.place.partial, 0777), 0);
    for (size_t i = 0; i < 3 && partials[_i / 2].file[i]; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "out.partial/%s", partials[_i / 2].file[i]);
        outputs_put(&o, name, partials[_i / 2].text[i]);
    }
    const char *const says = partials[_i / 2].says;
    const pare_status s = pare_owned_partial(&o.cx, &o.a, o.place.partial, o.place.kind, &state);
    if (says)
        outputs_check(&o, s, PARE_EEXISTS, says);
    else
        ck_assert_msg(s == PARE_OK && state == partials[_i / 2].state, "%s", o.cx.what);
    bool unfinished;
    ck_assert_int_eq(pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished), s);
    const bool stays = says || (state == PARE_OWNED_LOST && _i % 2 == 0);
    ck_assert(outputs_has(&o, "out.partial") == stays);
    for (size_t i = 0; says && i < 3 && partials[_i / 2].file[i]; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "out.partial/%s", partials[_i / 2].file[i]);
        ck_assert(outputs_holds(&o, name, partials[_i / 2].text[i]));
    }
    outputs_end(&o);
}
END_TEST

/* A damaged journal does not tell whether its run was asked to replace the output. */
START_TEST(work_of_an_unknown_job_does_not_replace_an_output)
{
    outputs o;
    bool unfinished;
    outputs_begin(&o, PARE_OUTPUT_ARTIFACT);
    outputs_finish(&o, "out", "first");
    ck_assert_int_eq(mkdir(o.place.partial, 0777), 0);
    outputs_begin_work(&o, o.place.partial);
    ck_assert_int_eq(pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished),
                     PARE_OK);
    ck_assert(unfinished && outputs_has(&o, "out.partial/journal"));
    outputs_put(&o, "out.partial/journal", "PJ01");
    ck_assert_int_eq(pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished),
                     PARE_OK);
    ck_assert(!unfinished && !outputs_has(&o, "out.partial"));
    ck_assert(outputs_holds(&o, "out/config.json", "first"));
    outputs_end(&o);
}
END_TEST

START_TEST(what_came_or_changed_meanwhile_stays_and_is_told)
{
    outputs o;
    outputs_begin(&o, kinds[_i]);
    outputs_finish(&o, "out", "old");
    outputs_finish(&o, "out.partial", "new");
    outputs_begin_work(&o, o.place.partial);
    ck_assert_int_eq(pare_output_place_check(&o.cx, &o.a, &o.place), PARE_OK);
    outputs_put(&o, "out/notes.txt", "mine"); /* behind the first look */
    outputs_check(&o, pare_output_place_publish(&o.cx, &o.a, &o.place, true, &o.teller),
                  PARE_EEXISTS, "out/notes.txt: is no file of an");
    ck_assert(outputs_holds(&o, "out/config.json", "old"));
    ck_assert(outputs_holds(&o, "out.partial/config.json", "new"));
    ck_assert(outputs_has(&o, "out.partial/journal") && !outputs_has(&o, "out/journal"));
    outputs_put(&o, "out/config.json", "edited"); /* behind the second */
    outputs_check(&o, pare_owned_remove(&o.cx, &o.a, o.place.output, o.place.kind), PARE_EEXISTS,
                  "out: \"config.json\" came there or changed meanwhile, and stays");
    ck_assert(outputs_holds(&o, "out/notes.txt", "mine"));
    ck_assert(outputs_holds(&o, "out/config.json", "edited"));
    ck_assert(!outputs_has(&o, "out/model.safetensors") && !outputs_has(&o, "out/SHA256SUMS"));
    outputs_end(&o);
}
END_TEST

/* Changes files while their digests are taken. */
static void change_files(void *self, const char *what, double done, double total)
{
    outputs *const o = self;
    (void)what;
    (void)done;
    (void)total;
    if (outputs_has(o, "out/merges.txt"))
        return;
    outputs_put(o, "out/merges.txt", "mine");
    ck_assert_int_eq(unlink(job_path(&o->root, "out/config.json")), 0);
    outputs_put(o, "out/config.json", "mine");
}

START_TEST(what_comes_while_digests_are_taken_stays)
{
    outputs o;
    outputs_begin(&o, kinds[_i]);
    outputs_finish(&o, "out", "old");
    o.cx.progress.report = change_files;
    o.cx.progress.self = &o;
    outputs_check(&o, pare_owned_remove(&o.cx, &o.a, o.place.output, o.place.kind), PARE_EEXISTS,
                  "came there or changed meanwhile, and stays");
    ck_assert(outputs_holds(&o, "out/merges.txt", "mine"));
    ck_assert(outputs_holds(&o, "out/config.json", "mine"));
    outputs_end(&o);
}
END_TEST

START_TEST(a_finished_output_by_the_name_of_the_work_is_nobodys_rest)
{
    outputs o;
    bool unfinished;
    outputs_begin(&o, kinds[_i]);
    outputs_finish(&o, "out.partial", "mine");
    outputs_check(&o, pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished),
                  PARE_EEXISTS, "out.partial/SHA256SUMS: lies beside no journal");
    outputs_put(&o, "out.partial/journal", "");
    outputs_check(&o, pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished),
                  PARE_EEXISTS, "out.partial/journal: is damaged, and lies in finished work");
    ck_assert(outputs_holds(&o, "out.partial/config.json", "mine"));
    ck_assert_int_eq(unlink(job_path(&o.root, "out.partial/journal")), 0);
    ck_assert_int_eq(mkdir(job_path(&o.root, "out"), 0777), 0);
    ck_assert_int_eq(pare_owned_mark_replaced(&o.cx, o.place.partial, job_path(&o.root, "out")),
                     PARE_OK);
    outputs_put(&o, "out.partial/config.json", "edited");
    outputs_check(&o, pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished),
                  PARE_EEXISTS, "out.partial/config.json: differs from its SHA-256");
    ck_assert(outputs_has(&o, "out.partial/model.safetensors"));
    outputs_put(&o, "out.partial/config.json", "mine");
    ck_assert_int_eq(pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished),
                     PARE_OK);
    ck_assert(!outputs_has(&o, "out.partial"));
    outputs_end(&o);
}
END_TEST

START_TEST(work_of_the_other_kind_stays)
{
    outputs o;
    bool unfinished;
    outputs_begin(&o, kinds[_i]);
    ck_assert_int_eq(mkdir(o.place.partial, 0777), 0);
    outputs_put(&o, "out.partial/model.safetensors", "hours of work");
    outputs_begin_work(&o, o.place.partial);
    o.place.kind = kinds[1 - _i];
    outputs_check(&o, pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished),
                  PARE_EEXISTS,
                  _i == 0 ? "out.partial: is unfinished work of pare compress"
                          : "out.partial: is unfinished work of pare export");
    ck_assert(outputs_holds(&o, "out.partial/model.safetensors", "hours of work"));
    outputs_end(&o);
}
END_TEST

/* An old output that was moved away, and what a user then does in its place. */
START_TEST(an_old_output_goes_only_when_a_whole_one_is_in_its_place)
{
    outputs o;
    bool unfinished;
    outputs_begin(&o, kinds[_i % 2]);
    outputs_finish(&o, "out.replaced", "old");
    ck_assert_int_eq(mkdir(o.place.partial, 0777), 0);
    ck_assert_int_eq(pare_owned_mark_replaced(&o.cx, o.place.replaced, o.place.partial), PARE_OK);
    if (_i < 2)
        ck_assert_int_eq(mkdir(o.place.output, 0777), 0);
    else
        outputs_finish(&o, "out", "new");
    if (_i / 2 == 1)
        outputs_put(&o, "out/config.json", "edited");
    if (_i / 2 == 2)
        outputs_begin_work(&o, o.place.output);
    const pare_status s = pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished);
    if (_i / 2 == 2) {
        ck_assert_msg(s == PARE_OK, "%s", o.cx.what);
        ck_assert(!outputs_has(&o, "out.replaced") && outputs_holds(&o, "out/config.json", "new"));
    } else {
        ck_assert_msg(strstr(o.cx.what, "out.replaced is an old output"), "%s", o.cx.what);
        outputs_check(&o, s, PARE_EEXISTS, "out is not what replaced it");
        ck_assert(outputs_holds(&o, "out.replaced/config.json", "old"));
    }
    outputs_end(&o);
}
END_TEST

START_TEST(names_of_files_beside_outputs_are_reserved)
{
    static const char *const name[] = {"x.partial",   "x.replaced", "d/x.lock", "x.tmp/",
                                       "x.partial.d", "lock",       ".lock"};
    outputs o;
    outputs_begin(&o, PARE_OUTPUT_ARTIFACT);
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        pare_output_place p;
        ck_assert_int_eq(pare_output_place_make(&o.a, PARE_OUTPUT_EXPORT, name[i], &p), PARE_OK);
        ck_assert((pare_output_place_reserved(&p) != NULL) == (i < 4 || i == 6));
    }
    outputs_end(&o);
}
END_TEST

START_TEST(a_users_copy_of_an_output_stays_where_it_is)
{
    outputs o;
    bool unfinished;
    outputs_begin(&o, kinds[_i]);
    outputs_finish(&o, "out.replaced", "copy");
    ck_assert_int_eq(pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished),
                     PARE_OK);
    ck_assert(outputs_has(&o, "out.replaced/config.json") && !outputs_has(&o, "out"));
    outputs_finish(&o, "out", "first");
    ck_assert_int_eq(pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished),
                     PARE_OK);
    outputs_check(&o, pare_output_place_check(&o.cx, &o.a, &o.place), PARE_EEXISTS,
                  "out.replaced: is where the old output may have to go");
    ck_assert(outputs_holds(&o, "out.replaced/config.json", "copy"));
    outputs_end(&o);
}
END_TEST

START_TEST(a_journal_that_is_not_of_pare_stays_in_the_output)
{
    outputs o;
    bool unfinished;
    outputs_begin(&o, kinds[_i]);
    outputs_finish(&o, "out", "first");
    outputs_put(&o, "out/journal", "dear diary");
    ck_assert_int_eq(pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished),
                     PARE_OK);
    ck_assert(outputs_holds(&o, "out/journal", "dear diary"));
    for (size_t i = 0; i < 3; i++) { /* nor one that cannot be read */
        static const char *const text[] = {"PJ01", "", "my notes on PJ01"};
        outputs_put(&o, "out/journal", text[i]);
        ck_assert_int_eq(pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished),
                         PARE_OK);
        outputs_check(&o, pare_output_place_check(&o.cx, &o.a, &o.place), PARE_EEXISTS,
                      "out/journal: is no file of an");
        ck_assert(outputs_holds(&o, "out/journal", text[i]));
    }
    outputs_begin_work(&o, o.place.output);
    ck_assert_int_eq(pare_output_place_mend(&o.cx, &o.a, &o.place, &o.teller, &unfinished),
                     PARE_OK);
    ck_assert(!outputs_has(&o, "out/journal") && outputs_has(&o, "out/config.json"));
    outputs_end(&o);
}
END_TEST

START_TEST(running_out_of_memory_is_told_and_touches_nothing)
{
    outputs o;
    outputs_begin(&o, PARE_OUTPUT_ARTIFACT);
    outputs_finish(&o, "out", "first");
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK; n++) {
        unit_failing f = {.left = n};
        pare_ctx failing;
        pare_arena a;
        bool unfinished;
        pare_ctx_init(&failing);
        failing.alloc = (pare_alloc){unit_failing_resize, &f};
        s = pare_arena_init(&failing, &a, 0);
        if (s == PARE_OK)
            s = pare_output_place_mend(&failing, &a, &o.place, &o.teller, &unfinished);
        if (s == PARE_OK)
            s = pare_output_place_check(&failing, &a, &o.place);
        if (s == PARE_OK)
            s = pare_owned_remove(&failing, &a, o.place.output, o.place.kind);
        ck_assert_msg(s == PARE_OK || s == PARE_ENOMEM, "%ld: %s", n, failing.what);
        ck_assert(outputs_has(&o, "out/model.safetensors") == (s != PARE_OK));
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
    }
    ck_assert(!outputs_has(&o, "out"));
    outputs_end(&o);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("ours");
    TCase *const t = tcase_create("outputs");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, a_finished_output_is_replaced_only_as_pare_left_it, 0, 2 * ATTACKS);
    tcase_add_loop_test(t, an_output_that_may_not_be_read_is_told_as_such, 0, 2);
    tcase_add_loop_test(t, other_directories_and_files_are_no_outputs, 0, 2);
    tcase_add_test(t, a_listed_file_with_a_name_that_pare_does_not_give_is_foreign);
    tcase_add_loop_test(t, work_is_told_from_what_is_not_of_pare, 0, 2 * PARTIALS);
    tcase_add_test(t, work_of_an_unknown_job_does_not_replace_an_output);
    tcase_add_loop_test(t, what_came_or_changed_meanwhile_stays_and_is_told, 0, 2);
    tcase_add_loop_test(t, what_comes_while_digests_are_taken_stays, 0, 2);
    tcase_add_loop_test(t, a_finished_output_by_the_name_of_the_work_is_nobodys_rest, 0, 2);
    tcase_add_loop_test(t, work_of_the_other_kind_stays, 0, 2);
    tcase_add_loop_test(t, an_old_output_goes_only_when_a_whole_one_is_in_its_place, 0, 6);
    tcase_add_test(t, names_of_files_beside_outputs_are_reserved);
    tcase_add_loop_test(t, a_users_copy_of_an_output_stays_where_it_is, 0, 2);
    tcase_add_loop_test(t, a_journal_that_is_not_of_pare_stays_in_the_output, 0, 2);
    tcase_add_test(t, running_out_of_memory_is_told_and_touches_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
