#include <stdio.h>
#include <string.h>

#include "compress/batch/batch_plan.h"
#include "compress/cli/help_pages.h"
#include "compress/output/owned_files.h"
#include "compress/text/units.h"
#include "recipes/recipe.h"
#include "runtime/machine.h"
#include "runtime/threads.h"

static const char example[] =
    "pare: 1\n"
    "recipe: w4.yaml              # what all jobs begin with\n"
    "output: sweep                # a folder in it for each job\n"
    "matrix:\n"
    "  method: [gptq, [awq, rtn]] # or {name: [pass, ...], ...}\n"
    "  bits: [3, 4]               # a parameter of the passes, or a path:\n"
    "  calibration.samples: [64, 128]\n"
    "exclude:\n"
    "  - {method: awq-rtn, bits: 3}\n"
    "include:\n"
    "  - {method: rtn, bits: 8}\n"
    "  - {name: last, bits: 2, after: rtn-bits8}\n";

void pare_help_batch(void)
{
    (void)printf("batch: the file of \"pare batch\", in YAML\n\n  %-12s %-30s %s\n", "key",
                 "for example", "what");
    for (const pare_recipe_key *k = pare_batch_keys; k->name; k++)
        pare_help_words(printf("  %-12s %-30s ", k->name, k->example), 46, k->help);
    (void)printf(
        "\n"
        "\"method\" of a matrix names passes; a pass that the recipe has keeps its settings there, "
        "and one\n"
        "that leaves rounding to others, such as awq, gets rtn behind it. Other keys are "
        "parameters "
        "of the\n"
        "passes, or paths of keys with dots, as for --set. A parameter that no pass of a method "
        "has "
        "does\n"
        "not multiply that method. A word that is both, such as \"embeddings\" of distill, is "
        "refused: write\n"
        "recipe.embeddings for the key of the recipe, passes.0.distill.embeddings for the "
        "parameter.\n"
        "Put a method that has another pass there, or none, into include, not into the matrix.\n"
        "An entry of \"include\" is a job: it sets keys as the matrix does, and may have a name, a "
        "method, a\n"
        "model (a path, or {job: NAME}: the output of that job), and after: NAME. Paths are "
        "relative to the\n"
        "file in which they stand. An export of a job is FOLDER/NAME-FILE, where a relative folder "
        "is in that\n"
        "of the batch.\n"
        "\n"
        "The state of a job in the summary:\n"
        "  missing     nothing of it is there\n"
        "  unfinished  it was begun, or is running; the same command continues it\n"
        "  done        it is finished; its verdict (pare help require) may be any\n"
        "  stale       what is there is damaged or not of pare, of another recipe or model, or "
        "older "
        "than\n"
        "              a --restart that was stopped; the summary says which\n"
        "  failed      the summary says why, and the same command tries it again\n"
        "  infeasible  its files would be larger than it requires; nothing was written\n"
        "  waits       for a job that is not done\n"
        "\n%s",
        example);
}

/* "2/8". */
static pare_status read_shard(pare_cli *cli, const pare_args *args, pare_batch_opts *o)
{
    const char *const text = pare_args_text(args, "shard");
    unsigned k = 0, n = 0;
    char end;
    if (!text)
        return PARE_OK;
    if (text[strspn(text, "0123456789/")] || sscanf(text, "%5u/%5u%c", &k, &n, &end) != 2 ||
        k < 1 || k > n)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "--shard \"%s\": expected K/N, as in 1/4: the first of four parts", text);
    o->shard = k;
    o->shards = n;
    return PARE_OK;
}

static pare_status read_options(pare_cli *cli, const pare_args *args, pare_batch_opts *o)
{
    pare_machine machine;
    uint64_t at_once = 1;
    pare_machine_read("", &machine);
    uint64_t threads = machine.threads;
    *o = (pare_batch_opts){.file = args->operand[0],
                           .output = pare_args_text(args, "output"),
                           .shard = 1,
                           .shards = 1,
                           .restart = pare_args_given(args, "restart"),
                           .strict = pare_args_given(args, "strict"),
                           .speed = pare_args_given(args, "speed")};
    PARE_TRY(pare_args_count(&cli->cx, args, "jobs", 1, 1024, &at_once));
    PARE_TRY(pare_args_count(&cli->cx, args, "threads", 1, 1024, &threads));
    PARE_TRY(pare_args_bytes(&cli->cx, args, "ram-limit", &o->ram_limit));
    o->at_once = (size_t)at_once;
    o->threads = (size_t)threads;
    return read_shard(cli, args, o);
}

static pare_status print_out(pare_text_out *t, pare_status s)
{
    s = s == PARE_OK ? t->status : s;
    if (s == PARE_OK)
        (void)fwrite(t->text, 1, t->len, stdout); /* main looks at the stream's error flag */
    pare__text_free(t);
    return s;
}

static pare_status print_summary(pare_cli *cli, const pare_jobs *b)
{
    pare_text_out t = {.cx = &cli->cx};
    pare_status s = PARE_OK;
    if (cli->json)
        s = pare_batch_json(&t, b);
    else
        pare_batch_text(&t, b);
    return print_out(&t, s);
}

static pare_status emit(pare_cli *cli, pare_jobs *b, const char *as)
{
    const bool make = strcmp(as, "make") == 0;
    pare_text_out t = {.cx = &cli->cx};
    if (!make && strcmp(as, "slurm") != 0)
        return pare_fail(&cli->cx, PARE_EUSAGE, "--emit \"%s\": expected make or slurm", as);
    if (cli->json)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "--emit %s: a script is no JSON; leave --format json out", as);
    if (b->opts->restart || (make && b->opts->speed))
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "--emit %s: a script goes on where it was, and %s; leave --%s out", as,
                         b->opts->restart ? "begins nothing anew" : "make measures no speed",
                         b->opts->restart ? "restart" : "speed");
    PARE_TRY(pare_batch_begin(b)); /* rules name recipes */
    return print_out(&t, pare_batch_emit(&t, b, make));
}

static const char *plan_state(const pare_batch_plan_row *r)
{
    if (r->why[0])
        return r->why;
    return r->act == PARE_BATCH_ACT_SHARD ? "of another shard" : "done already";
}

/* What is there stays. */
static void print_there(const pare_batch_plan_row *r)
{
    char x[PARE_UNIT_TEXT];
    (void)printf("is there, of the same work; a run looks at it");
    if (r->missing)
        (void)printf(", and makes %zu of %zu export%s, %s", r->missing, r->of, pare_plural(r->of),
                     pare_units_bytes(r->exports, x));
    (void)printf("%s%s\n", r->verdict[0] ? "; its verdict is " : "", r->verdict);
}

static void print_figures(const pare_batch_plan_row *r)
{
    char x[PARE_UNIT_TEXT], y[PARE_UNIT_TEXT], z[PARE_UNIT_TEXT];
    (void)printf("%10s  %15.3f  %10s  about %s%s%s%s%s\n", pare_units_bytes(r->bytes, x), r->bits,
                 pare_units_bytes(r->memory, y),
                 pare_units_seconds(r->seconds - r->shared_seconds, z),
                 !r->infeasible  ? ""
                 : r->falls_back ? "; of a fallback: the recipe itself is INFEASIBLE"
                                 : "; INFEASIBLE, so nothing is written",
                 !r->known_once ? ""
                 : r->unsure    ? "; may be INFEASIBLE, known once "
                                : "; files known once ",
                 r->known_once ? r->known_once : "",
                 r->goes_on ? "; unfinished: the same command continues it" : "");
}

static bool has_figures(const pare_batch_plan_row *r)
{
    return r->act == PARE_BATCH_ACT_PLANNED || (r->act == PARE_BATCH_ACT_INFEASIBLE && r->bytes);
}

static void print_totals(const pare_jobs *b, const pare_batch_plan *p)
{
    char x[PARE_UNIT_TEXT];
    const size_t later = p->count[PARE_BATCH_ACT_LATER], stale = p->count[PARE_BATCH_ACT_STALE];
    (void)printf("%zu of %zu job%s to do", p->to_do, b->rows, pare_plural(b->rows));
    if (later)
        (void)printf(", %zu of which %s planned once %s there", later, later == 1 ? "is" : "are",
                     later == 1 ? "its model is" : "their models are");
    const char *between = ": ";
    if (p->count[PARE_BATCH_ACT_PLANNED]) {
        (void)printf(": %s of files", pare_units_bytes(p->bytes, x));
        between = ", ";
    }
    if (p->exports) {
        (void)printf("%s%s of exports", between, pare_units_bytes(p->exports, x));
        between = ", ";
    }
    if (p->to_do > later)
        (void)printf("%s%s at most in one job", between, pare_units_bytes(p->memory, x));
    if (p->count[PARE_BATCH_ACT_PLANNED])
        (void)printf(", about %s one after the other", pare_units_seconds(p->seconds, x));
    (void)printf("\n");
    if (p->count[PARE_BATCH_ACT_FAILED])
        (void)printf("%zu would fail\n", p->count[PARE_BATCH_ACT_FAILED]);
    if (stale > p->damaged)
        (void)printf("%zu %s stale and would be refused; --restart makes all jobs anew\n",
                     stale - p->damaged, stale - p->damaged == 1 ? "is" : "are");
    if (p->damaged)
        (void)printf("%zu %s damaged or not of pare and would be refused; --restart does not "
                     "replace %s\n",
                     p->damaged, p->damaged == 1 ? "is" : "are", p->damaged == 1 ? "it" : "them");
}

static void print_plan(const pare_jobs *b, const pare_batch_plan *p)
{
    size_t width = 3;
    for (size_t i = 0; i < b->rows; i++)
        width = strlen(b->row[i].job->name) > width ? strlen(b->row[i].job->name) : width;
    (void)printf("%-*s  %10s  %15s  %10s  %s\n", (int)width, "job", "files", "bits per weight",
                 "memory", "time");
    for (size_t i = 0; i < b->rows; i++) {
        const pare_batch_plan_row *const r = &p->row[i];
        (void)printf("%-*s  ", (int)width, r->row->job->name);
        if (has_figures(r))
            print_figures(r);
        else if (r->act == PARE_BATCH_ACT_THERE)
            print_there(r);
        else
            (void)printf("%s\n", plan_state(r));
    }
    print_totals(b, p);
    (void)printf("output in %s\n", b->output);
}

static void put_figures(pare_json_writer *w, const pare_batch_plan_row *r)
{
    pare_json_put_bool(w, "feasible", !r->infeasible);
    pare_json_put_bool(w, "fallback", r->falls_back);
    pare_json_put_finite(w, "bits_per_weight", r->bits);
    pare_json_put_integer(w, "packed_bytes", (int64_t)r->bytes);
    pare_json_put_bool(w, "packed_bytes_exact", !r->known_once);
    pare_json_put_integer(w, "memory_bytes", (int64_t)r->memory);
    pare_json_put_integer(w, "disk_bytes", (int64_t)r->disk);
    pare_json_put_integer(w, "export_bytes", (int64_t)r->exports);
    pare_json_put_finite(w, "seconds", r->seconds);
    pare_json_put_finite(w, "shared_seconds", r->shared_seconds);
}

static void put_row(pare_json_writer *w, const pare_batch_plan_row *r)
{
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "name", r->row->job->name);
    pare_json_put_text(w, "state", pare_batch_act_name(r->act));
    pare_json_put_bool(w, "planned", has_figures(r));
    if (has_figures(r))
        put_figures(w, r);
    else if (r->act != PARE_BATCH_ACT_THERE)
        pare_json_put_text(w, "reason", plan_state(r));
    if (r->act == PARE_BATCH_ACT_THERE) {
        pare_json_put_integer(w, "missing_exports", (int64_t)r->missing);
        pare_json_put_integer(w, "export_bytes", (int64_t)r->exports);
        if (r->verdict[0])
            pare_json_put_text(w, "verdict", r->verdict);
    }
    pare_json_close(w);
}

static pare_status print_plan_json(pare_cli *cli, const pare_jobs *b, const pare_batch_plan *p)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "batch", b->file.file);
    pare_json_put_text(w, "output", b->output);
    pare_json_open_array(w, "jobs");
    for (size_t i = 0; i < b->rows; i++)
        put_row(w, &p->row[i]);
    pare_json_close(w);
    pare_json_open_object(w, "counts");
    for (int x = 0; x < PARE_BATCH_ACTS; x++)
        pare_json_put_integer(w, pare_batch_act_name((pare_batch_act)x), (int64_t)p->count[x]);
    pare_json_close(w);
    pare_json_put_integer(w, "to_do", (int64_t)p->to_do);
    pare_json_put_integer(w, "packed_bytes", (int64_t)p->bytes);
    pare_json_put_integer(w, "export_bytes", (int64_t)p->exports);
    pare_json_put_integer(w, "memory_bytes", (int64_t)p->memory);
    pare_json_put_integer(w, "disk_bytes", (int64_t)p->disk);
    pare_json_put_finite(w, "seconds", p->seconds);
    pare_json_close(w);
    return pare_cli_print(w);
}

/* The first job that would not be done, and how many. Where their reasons are of several kinds, the
 * exit code is that of a batch with failed jobs. */
static pare_status fail_plan(pare_cli *cli, const pare_jobs *b, const pare_batch_plan *p)
{
    const pare_batch_plan_row *first = NULL;
    const size_t failed = p->count[PARE_BATCH_ACT_FAILED], stale = p->count[PARE_BATCH_ACT_STALE];
    pare_status s = PARE_OK;
    for (size_t i = 0; i < b->rows; i++) {
        const pare_batch_plan_row *const r = &p->row[i];
        if (r->status == PARE_OK)
            continue;
        first = first ? first : r;
        s = r->status == first->status ? r->status : PARE_EIO;
        if (s == PARE_EIO)
            break;
    }
    if (failed + stale == 1)
        return pare_fail(&cli->cx, s, "%s: %s", first->row->job->name, first->why);
    char text[96];
    if (failed && stale)
        (void)snprintf(text, sizeof text, "%zu job%s would fail and %zu would be refused", failed,
                       pare_plural(failed), stale);
    else
        (void)snprintf(text, sizeof text, "%zu jobs would %s", failed + stale,
                       failed ? "fail" : "be refused");
    return pare_fail(&cli->cx, s, "%s, as the list says; the first is %s: %s", text,
                     first->row->job->name, first->why);
}

/* A job that cannot be planned would fail; a verdict that is known now is that of a run. */
static pare_status dry_run(pare_cli *cli, pare_jobs *b)
{
    pare_batch_plan p;
    PARE_TRY(pare_batch_look(b));
    const size_t threads = pare_batch_threads(b);
    if (threads > PARE_THREADS_MAX)
        return pare_fail(&cli->cx, PARE_EUSAGE, "--threads gives each job %zu, and %d are the most",
                         threads, PARE_THREADS_MAX);
    const size_t held = cli->cx.live_bytes; /* a job has its threads, too */
    PARE_TRY(pare_pool_new(&cli->cx, threads, &cli->cx.pool));
    b->before_bytes += cli->cx.live_bytes - held;
    PARE_TRY(pare_batch_plan_make(b, &p));
    if (cli->json)
        PARE_TRY(print_plan_json(cli, b, &p));
    else
        print_plan(b, &p);
    for (size_t i = 0; i < b->rows; i++)
        cli->refused |= p.row[i].act == PARE_BATCH_ACT_INFEASIBLE ||
                        (p.row[i].verdict[0] && strcmp(p.row[i].verdict, "ACCEPT") != 0);
    return p.count[PARE_BATCH_ACT_FAILED] + p.count[PARE_BATCH_ACT_STALE] ? fail_plan(cli, b, &p)
                                                                          : PARE_OK;
}

/* What can be done about jobs that are not done: stale ones, and those in the place of whose
 * outputs lies what is damaged or of others. */
static pare_status fail_jobs(pare_cli *cli, size_t open, size_t of, size_t stale, size_t damaged,
                             bool only)
{
    char anew[96] = "", away[112] = "";
    if (damaged == open)
        return pare_fail(&cli->cx, PARE_EIO,
                         "%zu of %zu job%s %s not done: what is there is damaged or not of pare, "
                         "and no --restart replaces it; move it away first",
                         open, of, pare_plural(of), open == 1 ? "is" : "are");
    if (damaged)
        (void)snprintf(away, sizeof away,
                       "; %zu output%s %s damaged or not of pare and must be moved away first",
                       damaged, pare_plural(damaged), damaged == 1 ? "is" : "are");
    if (stale && stale + damaged < open)
        (void)snprintf(anew, sizeof anew, ", and with --restart makes all jobs anew, %zu stale %s",
                       stale, stale == 1 ? "one too" : "ones too");
    if (stale + damaged < open)
        return pare_fail(&cli->cx, PARE_EIO,
                         "%zu of %zu job%s %s not done; the %s tries %s again%s%s", open, of,
                         pare_plural(of), open == 1 ? "is" : "are",
                         only ? "command without --summary" : "same command",
                         open == 1 ? "it" : "them", anew, away);
    return pare_fail(
        &cli->cx, PARE_EIO,
        "%zu of %zu job%s %s not done: other results are there; the %s --restart makes "
        "all jobs anew, and pare compress NAME.yaml --restart one of them%s",
        open, of, pare_plural(of), open == 1 ? "is" : "are",
        only ? "command without --summary, but with" : "same command with", away);
}

/* Whether what is there must be moved away before another try. */
static bool is_damaged(const pare_batch_row *r)
{
    return (r->refused && r->damaged) ||
           (r->state == PARE_BATCH_FAILED && strstr(r->why, PARE_OWNED_ONLY));
}

/* What the jobs of this call came to; `only` a summary of them. */
static pare_status conclude(pare_cli *cli, const pare_jobs *b, bool only)
{
    size_t failed = 0, open = 0, shard = 0, stale = 0, damaged = 0;
    for (size_t i = 0; i < b->rows; i++) {
        const pare_batch_row *const r = &b->row[i];
        cli->fallback |= r->fallback;
        cli->refused |= r->mine && r->verdict[0] && strcmp(r->verdict, "ACCEPT") != 0;
        shard += r->mine;
        open += r->mine && r->state != PARE_BATCH_DONE;
        stale += r->mine && r->refused && !r->damaged;
        damaged += r->mine && is_damaged(r);
        failed += r->mine && (r->state == PARE_BATCH_FAILED || r->state == PARE_BATCH_WAITS);
    }
    return failed || stale || damaged ? fail_jobs(cli, open, shard, stale, damaged, only) : PARE_OK;
}

static pare_status run(pare_cli *cli, const pare_args *args, pare_jobs *b)
{
    const bool only = pare_args_given(args, "summary");
    pare_status ran = PARE_OK;
    if (!only) {
        pare_job_told(cli, b->output, "%zu job%s", b->rows, pare_plural(b->rows));
        PARE_TRY(pare_job_begin(cli, args));
        PARE_TRY(pare_batch_begin(b));
        cli->screen.begun = true;
        ran = pare_batch_run(b);
        if (ran != PARE_OK && ran != PARE_EINTERRUPTED)
            return ran;
        pare_ctx_clear(&cli->cx);
    }
    PARE_TRY(pare_batch_write(b));
    PARE_TRY(print_summary(cli, b));
    if (ran == PARE_EINTERRUPTED) {
        pare_screen_say(&cli->screen, "stopped; the same command%s continues here",
                        b->opts->restart ? " without --restart" : "");
        return pare_fail(&cli->cx, ran, "interrupted");
    }
    return conclude(cli, b, only);
}

static pare_status check_modes(pare_cli *cli, const pare_args *args)
{
    static const char *const mode[] = {"dry-run", "emit", "summary"};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof mode / sizeof *mode; i++) {
        if (!pare_args_given(args, mode[i]))
            continue;
        if (first)
            return pare_fail(&cli->cx, PARE_EUSAGE,
                             "batch: --%s and --%s exclude each other; leave one out", first,
                             mode[i]);
        first = mode[i];
    }
    return PARE_OK;
}

pare_status pare_batch_command(pare_cli *cli, const pare_args *args)
{
    pare_batch_opts opts;
    pare_jobs b = {0};
    const pare_teller teller = {pare_cli_tell, cli};
    const char *const script = pare_args_text(args, "emit");
    PARE_TRY(read_options(cli, args, &opts));
    PARE_TRY(check_modes(cli, args));
    if (pare_args_given(args, "notify") && (script || pare_args_given(args, "summary")))
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "batch: --notify tells of the end of jobs, and --%s runs none; leave it "
                         "out",
                         script ? "emit" : "summary");
    pare_status s = pare_batch_open(&cli->cx, &cli->arena, &opts, &teller, &b);
    if (s == PARE_OK && pare_args_given(args, "dry-run"))
        s = dry_run(cli, &b);
    else if (s == PARE_OK && script)
        s = emit(cli, &b, script);
    else if (s == PARE_OK)
        s = run(cli, args, &b);
    pare_batch_release(&b);
    return s;
}
