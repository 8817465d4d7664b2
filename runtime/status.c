#include "runtime/status.h"

const char *pare_strstatus(pare_status s)
{
    switch (s) {
#define X(name, value, text)                                                                       \
    case PARE_##name: return text;
        PARE_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}
