/* An importance matrix of llama.cpp, by the rules that a job reads it by. */
#include "calib/imatrix.h"
#include "compress/artifact/verify_internal.h"

pare_status pare__verify_importance(pare_verify_run *v)
{
    pare_imatrix m;
    PARE_TRY(pare_imatrix_is_none_else(v->cx, v->path, &v->out->importance));
    if (!v->out->importance)
        return PARE_OK;
    pare_status s = pare__verify_absorb(v, pare_imatrix_open(v->cx, &v->arena, v->path, &m));
    v->out->files = 1;
    v->out->bytes = m.file.bytes;
    v->out->tensors = m.entries;
    for (size_t i = 0; i < m.entries && s == PARE_OK; i++)
        s = pare__verify_absorb(v, pare_imatrix_check(&m, &m.entry[i]));
    pare_imatrix_close(&m);
    return s;
}
