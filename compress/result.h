/* compress/result.h - what compressing one linear gave; rows of the manifest, report and CSV. */
#ifndef PARE_COMPRESS_RESULT_H
#define PARE_COMPRESS_RESULT_H

#include "formats/packed.h"

typedef struct pare_linear_result {
    pare_packed_linear linear;
    size_t block;
    const char *method;     /* pass that gave the codes: "rtn", "gptq" */
    double weight_error;    /* |W - Q|^2 / |W|^2, Frobenius */
    double output_error;    /* tr((W-Q) H (W-Q)^T) / tr(W H W^T); below 0: not measured */
    double damp;            /* damping of the factor in use; 0: none */
    unsigned raises;        /* steps the damping was raised */
    bool f64;               /* factored in double precision */
    bool fallback;          /* codes come from RTN because no factor was found */
    size_t dead;            /* input columns that calibration never saw */
    double bits_per_weight; /* bits of all planes over n * k */
    double seconds;         /* not part of the manifest */
    uint8_t hash[3][16];    /* XXH3-128 of codes, scales, zeros */
} pare_linear_result;

#endif
