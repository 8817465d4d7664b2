/* compress/artifact/asked_speed.h - what widths were chosen for. */
#ifndef PARE_COMPRESS_ARTIFACT_ASKED_SPEED_H
#define PARE_COMPRESS_ARTIFACT_ASKED_SPEED_H

/* The speed that widths were chosen for (compress/budget/widths.c), in tokens decoded in a second.
 */
typedef struct pare_speed {
    double asked;     /* at least */
    double original;  /* of the model as it was */
    double predicted; /* by the times that decided */
    double reached;   /* measured of a model of these shapes */
} pare_speed;

#endif
