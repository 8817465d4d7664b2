/* compress/run/job_events.h - what a job tells on its way, and at its end. */
#ifndef PARE_COMPRESS_RUN_JOB_EVENTS_H
#define PARE_COMPRESS_RUN_JOB_EVENTS_H

#include "compress/plan/plan.h"
#include "compress/report/report.h"

/* What happens on the way. Text is one line for a person. */
typedef enum pare_event_kind {
    PARE_EVENT_PLAN,     /* the plan stands */
    PARE_EVENT_RESUME,   /* blocks of an earlier run are kept */
    PARE_EVENT_BLOCK,    /* a block is durable; `row`, `rows` are its linears */
    PARE_EVENT_NOTICE,   /* a numeric step of the ladder, a policy applied, activations spilled */
    PARE_EVENT_EVALUATE, /* an evaluation begins */
    PARE_EVENT_EXPORT,   /* the artifact is in place, an export of it begins */
    PARE_EVENT_DONE      /* the artifact is in place */
} pare_event_kind;

typedef struct pare_event {
    pare_event_kind kind;
    const char *text;
    size_t block, blocks;
    double seconds; /* since the start */
    const pare_linear_result *row;
    size_t rows;
} pare_event;

typedef struct pare_events {
    void (*event)(void *self, const pare_event *e); /* may be NULL */
    void *self;
} pare_events;

/* One export of the recipe. */
typedef struct pare_compress_export {
    const char *format, *path;
    pare_export_result result;
} pare_compress_export;

/* What a finished job tells. `report` and its rows live in the arena given to pare_compress. */
typedef struct pare_compress_result {
    pare_report report;
    pare_compress_export *export; /* those that this call made */
    size_t exports;
    const char *
        *older; /* places of exports that are there from before a verdict that allows none */
    size_t olders;
    double export_seconds;      /* part of report.seconds */
    size_t attempt, attempts;   /* the settings that this is of: 0 the recipe's own, and then its
                                   fallbacks; and how many there are */
    size_t last;                /* those behind it cannot be as small as is required */
    const pare_texts *fallback; /* [attempts - 1] */
    pare_job_left left;         /* in the process, for what runs next */
    bool again; /* the artifact was there already: of `report`, only output, verdict and fallbacks
                   are filled */
    bool other; /* it failed because what is there is of another job: --restart replaces it */
} pare_compress_result;

#endif
