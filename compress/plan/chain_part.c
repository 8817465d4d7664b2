#include "compress/plan/chain_part.h"

size_t pare_chain_lead(const pare_recipe *r)
{
    size_t lead = 0;
    while (lead < r->steps && pare_passes[r->step[lead].pass]->structure)
        lead++;
    return lead < r->steps ? lead : 0;
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
