/* The job as phases, so that whoever shows progress can say how long it will still take. What is
 * expected here is rough: it only says how phases compare until they have been measured. */
#include "compress/compress_internal.h"
#include "runtime/threads.h"

/* Per second: bytes read, hashed and written, weights rounded and packed, and operations of a
 * thread. */
static const double READ = 2e9, HASH = 5e8, WRITE = 5e8, PACK = 2e7, FLOPS = 2e10;

static double weights_of(const pare_plan *plan)
{
    double weights = 0;
    for (size_t i = 0; i < plan->linears; i++)
        weights += (double)plan->linear[i].packed.n * (double)plan->linear[i].packed.k;
    return weights;
}

/* Forward passes of the model before and after over what the recipe names, or what is held out. */
static double evaluation_flops(const pare_plan *plan)
{
    double tokens = plan->recipe.evaluations ? 0 : (double)(plan->held_out * plan->window);
    for (size_t i = 0; i < plan->recipe.evaluations; i++)
        tokens += (double)plan->evaluated_bytes[i] / 4; /* of a token, and about those of a word */
    return 3 * tokens * (double)plan->input_bytes;
}

static double export_bytes(const pare_plan *plan)
{
    double bytes = 0;
    for (size_t i = 0; i < plan->exports; i++)
        bytes += (double)plan->export[i].result.bytes;
    return bytes;
}

void pare__run_phases(pare_run *run)
{
    const pare_plan *const plan = &run->plan;
    const double threads = (double)pare_threads(run->cx), flops = FLOPS * threads;
    const double in = (double)plan->input_bytes, out = (double)plan->packed_bytes;
    const size_t blocks = plan->out.blocks;
    const size_t found = run->units_found < blocks ? run->units_found : blocks;
    const double share = blocks ? (double)found / (double)blocks : 0;
    const pare_phase phase[PARE__PHASES] = {
        [PARE__PHASE_FINITE] = {"looking for NaN", in / READ / threads, 1},
        [PARE__PHASE_HASH] = {"hashing files", in / HASH, 1},
        [PARE__PHASE_TOKENS] = {"reading calibration text", (double)plan->text_bytes / 1e6, 1},
        [PARE__PHASE_FOUND] = {"finding blocks again",
                               share * (plan->forward_flops / flops + out / READ), found},
        [PARE__PHASE_BLOCKS] = {"compressing blocks",
                                (1 - share) * ((plan->forward_flops + plan->pass_flops) / flops +
                                               weights_of(plan) / PACK / threads + out / WRITE),
                                blocks - found},
        [PARE__PHASE_FINISH] = {"writing the rest", out / HASH, 1},
        [PARE__PHASE_EVALUATE] = {"evaluating", evaluation_flops(plan) / flops,
                                  plan->recipe.evaluations ? plan->recipe.evaluations
                                                           : plan->held_out > 0},
        [PARE__PHASE_AGAIN] = {"looking whether the model changed", in / READ / threads, 1},
        [PARE__PHASE_EXPORT] = {"exporting", 2 * export_bytes(plan) / WRITE, plan->exports},
    };
    pare_ctx_job(run->cx, phase, PARE__PHASES);
}
