#include <math.h>
#include <stdio.h>

#include "compress/cli/help_pages.h"
#include "compress/cli/job_options.h"
#include "compress/passes/training.h"
#include "compress/plan/recipe_home.h"
#include "compress/text/units.h"
#include "compress/train/train_job.h"
#include "recipes/train_recipe.h"
#include "runtime/machine.h"

static const char example_recipe[] =
    "pare: 1\n"
    "config: config.json            # the shape: a config.json of a family that pare trains\n"
    "vocabulary: 4096               # train a tokenizer; or tokenizer: PATH\n"
    "output: tiny                   # a checkpoint that any program loads\n"
    "data: {text: [prose.txt], window: 256}\n"
    "train: {tokens: 5000000, batch: 16, rate: 1e-3, weight_decay: 0.1}\n";

static const char example_student[] =
    "pare: 1\n"
    "model: llama                   # a teacher, too, for itself\n"
    "blocks: 8                      # of 16, spread evenly; without it: all\n"
    "output: llama-8\n"
    "data: {text: [prose.txt], window: 512}\n"
    "train: {kl: 1, ce: 0, tokens: 2000000, rate: 1e-4}\n";

void pare_help_training(void)
{
    pare_param params[PARE_PARAMS_MAX + 1];
    pare_training_params(params);
    (void)printf("training: the recipe of \"pare train\", a YAML file\n\n"
                 "  %-12s %-30s %s\n",
                 "key", "for example", "what");
    for (const pare_recipe_key *k = pare_train_keys; k->name; k++)
        pare_help_words(printf("  %-12s %-30s ", k->name, k->example), 46, k->help);
    (void)printf("\nvocabulary, blocks, keep_zeros, dtype:\n");
    for (size_t i = 0; pare_train_word_params[i]; i++)
        pare_help_setting(pare_train_word_params[i]);
    (void)printf("\ndata takes text: FILE, text: [FILE, ...] or tokens: FILE.i32, and:\n");
    for (size_t i = 0; pare_train_data_params[i]; i++)
        pare_help_setting(pare_train_data_params[i]);
    (void)printf("\nlora takes targets: [PATTERN, ...], as passes do or by what stands behind the "
                 "last dot of a name\n(all linears of the blocks), and:\n");
    for (const pare_param *p = pare_lora_params; p->name; p++)
        pare_help_setting(p);
    (void)printf("\ntrain takes:\n");
    for (const pare_param *p = params; p->name; p++)
        pare_help_setting(p);
    (void)printf(
        "\n"
        "Every weight is trained: embeddings, norms, linears, head; with \"lora\" adapters of "
        "linears\n"
        "alone. The optimizer is AdamW with betas 0.9 and 0.95; norms and biases do not decay. "
        "With\n"
        "\"config\" weights are normal numbers with the deviation initializer_range of "
        "config.json\n"
        "(0.02); those of linears that write into the stream are smaller by sqrt(2 blocks). Then "
        "take\n"
        "a rate near 1e-3; from a model one near 1e-4.\n"
        "\n"
        "All losses but ce compare with the teacher: the model of the recipe as it was, or\n"
        "another one of the same tokenizer. With hidden and attention block b of N stands beside "
        "block\n"
        "(b + 1) M / N - 1 of M. A teacher may be an artifact of pare.\n"
        "\n"
        "A special token that is written in a text, such as <|endoftext|>, is read as that token: "
        "put\n"
        "one between documents.\n"
        "\n"
        "pare saves the state every so many minutes (save). The same command continues a run that "
        "was\n"
        "killed, to the same bytes. Memory: 16 bytes for each trained weight (10 with\n"
        "\"moments: 8bit\"), and a step.\n"
        "\n"
        "a model from scratch\n%s\na student of half the depth, distilled\n%s",
        example_recipe, example_student);
}

static void print_begin(const pare_train_done *d)
{
    char a[PARE_UNIT_TEXT];
    const pare_adapter_result *const r = d->adapter;
    const bool alone = r && !r->merged;
    (void)printf("%-17s %s\n", alone ? "adapters" : "checkpoint", d->output);
    (void)printf("began with        %s\n", d->begun_with);
    (void)printf("weights           %llu in %s",
                 (unsigned long long)(alone ? r->trained : d->weights), d->dtype);
    if (d->bytes)
        (void)printf(", %s", pare_units_bytes(d->bytes, a));
    (void)printf("\n");
    if (r)
        (void)printf("trained weights   %llu of rank %zu, beside %zu linear%s\n",
                     (unsigned long long)r->trained, r->rank, r->linears, pare_plural(r->linears));
    if (d->vocabulary)
        (void)printf("tokenizer         %zu tokens, trained on the text\n", d->vocabulary);
}

static void print_plan(const pare_train_done *d)
{
    char a[PARE_UNIT_TEXT], b[PARE_UNIT_TEXT];
    const pare_training_result *const r = &d->training;
    print_begin(d);
    (void)printf("data              %zu window%s of %zu tokens, and %zu held out\n", d->windows,
                 pare_plural(d->windows), d->window, d->held_out);
    (void)printf("training          %zu step%s, %llu tokens\n", r->steps, pare_plural(r->steps),
                 (unsigned long long)r->tokens);
    (void)printf("allocated memory  %s at most; %s allows %s\n", pare_units_bytes(d->memory, a),
                 d->memory_limit_name, pare_units_bytes(d->memory_limit, b));
    (void)printf("disk              %s while running, of %s that are free\n",
                 pare_units_bytes(d->disk, a), pare_units_bytes(d->disk_free, b));
    (void)printf("time              about %s, %.0f tokens/s, by a part of one step on this machine "
                 "as it is now\n",
                 pare_units_seconds(d->step_seconds * (double)r->steps, a),
                 (double)r->tokens / ((double)r->steps * d->step_seconds));
    if (d->finished)
        (void)printf("output            is finished already; give another output, or --restart to "
                     "train anew and replace it\n");
}

static pare_status print_plan_json(pare_cli *cli, const pare_train_done *d)
{
    const pare_training_result *const r = &d->training;
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_train_put_begin(w, d);
    pare_json_open_object(w, "plan");
    pare_json_put_integer(w, "steps", (int64_t)r->steps);
    pare_json_put_integer(w, "tokens", (int64_t)r->tokens);
    pare_json_put_integer(w, "memory_bytes", (int64_t)d->memory);
    pare_json_put_integer(w, "memory_limit_bytes", (int64_t)d->memory_limit);
    pare_json_put_integer(w, "disk_bytes", (int64_t)d->disk);
    pare_json_put_integer(w, "disk_free_bytes", (int64_t)d->disk_free);
    pare_json_put_finite(w, "step_seconds", d->step_seconds);
    pare_json_put_finite(w, "seconds", d->step_seconds * (double)r->steps);
    pare_json_put_bool(w, "finished", d->finished);
    pare_json_close(w);
    pare_json_close(w);
    return pare_cli_print(w);
}

static pare_status print_json(pare_cli *cli, const pare_train_done *d)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_train_put(w, d);
    pare_json_put_finite(w, "seconds", d->seconds);
    pare_json_close(w);
    return pare_cli_print(w);
}

static void print_text(const pare_cli *cli, const pare_train_done *d)
{
    char a[PARE_UNIT_TEXT];
    const pare_training_result *const r = &d->training;
    print_begin(d);
    (void)printf("trained           %zu step%s, %llu tokens, %.0f tokens/s\n", r->steps,
                 pare_plural(r->steps), (unsigned long long)r->tokens,
                 r->seconds > 0 ? (double)r->tokens / r->seconds : 0);
    (void)printf("loss              %.4f -> %.4f\n", r->point[0].loss,
                 r->point[r->points - 1].loss);
    (void)printf("perplexity        %.4f -> %.4f   (%zu window%s held out)\n", exp(r->nll_before),
                 exp(r->nll_after), d->held_out, pare_plural(d->held_out));
    if (r->kl_after >= 0)
        (void)printf("KL from teacher   %.4f -> %.4f\n", r->kl_before, r->kl_after);
    (void)printf("time              %s", pare_units_seconds(d->seconds, a));
    if (d->resumed)
        (void)printf(", in this run; %zu step%s were done before", d->resumed,
                     pare_plural(d->resumed));
    (void)printf("\n");
    pare_cli_print_energy(cli, d->joules);
    pare_cli_print_memory(cli->cx.peak_bytes, pare_machine_peak_resident());
}

pare_status pare_train_run(pare_cli *cli, const pare_args *args)
{
    pare_job job;
    pare_train_done done = {0};
    const pare_teller teller = {pare_cli_tell, cli};
    PARE_TRY(pare_job_read(cli, args, &job));
    PARE_TRY(pare_recipe_go_home(&cli->cx, &cli->arena, &job));
    job.plan_only = pare_args_given(args, "dry-run");
    if (!job.plan_only)
        PARE_TRY(pare_job_begin(cli, args));
    pare_status s = pare_cli_threads(cli);
    if (s == PARE_OK)
        s = pare_train_job(&cli->cx, &cli->arena, &job, &teller, &done);
    if (s == PARE_EINTERRUPTED && !job.plan_only)
        pare_screen_say(&cli->screen, "stopped; the same command%s continues here",
                        job.restart ? " without --restart" : "");
    pare_job_told(cli, done.output, "perplexity %.4f -> %.4f", exp(done.training.nll_before),
                  exp(done.training.nll_after));
    PARE_TRY(s);
    cli->fallback = pare_args_given(args, "strict") && done.harmed;
    if (cli->json)
        return job.plan_only ? print_plan_json(cli, &done) : print_json(cli, &done);
    if (job.plan_only)
        print_plan(&done);
    else
        print_text(cli, &done);
    return PARE_OK;
}
