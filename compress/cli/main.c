#include <stdio.h>

#include "runtime/status.h"

int main(void)
{
    return puts(pare_strstatus(PARE_EUSAGE)) < 0 ? 1 : 2;
}
