#include "compress/plan/chain_part.h"

size_t pare_chain_lead(const pare_recipe *r)
{
    size_t lead = 0;
    while (lead < r->steps && pare_passes[r->step[lead].pass]->structure)
        lead++;
    return lead < r->steps ? lead : 0;
}

bool pare_chain_changes_basis(const pare_recipe *r)
{
    bool changes = false;
    for (size_t i = 1; i <= r->lead; i++) {
        const pare_step *const step = r->step - i;
        changes |= pare_passes[step->pass]->structure(step->value).hidden > 0;
    }
    return changes;
}

void pare_chain_cut(const pare_job *job, pare_recipe *r)
{
    const size_t lead = pare_chain_lead(r);
    if (job->part == PARE_JOB_SMALLER) {
        r->steps = lead;
        r->table[PARE_TABLE_EMBEDDINGS] = r->table[PARE_TABLE_HEAD] = NULL;
        r->evaluations = r->exports = r->requirements = r->fallbacks = 0;
        r->kv = (pare_kv_format){.method = PARE_KV_FLOAT};
    } else if (job->part == PARE_JOB_REST) {
        r->step += lead;
        r->steps -= lead;
        r->lead = lead;
    }
}
