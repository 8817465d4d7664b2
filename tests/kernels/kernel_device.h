/* tests/kernels/kernel_device.h - the kernels of a device behind the table of the CPU's. */
#ifndef PARE_TESTS_KERNEL_DEVICE_H
#define PARE_TESTS_KERNEL_DEVICE_H

#include "kernels/kernels.h"

/* Opens the device of this program and replaces those kernels that it has. Prints and exits where
 * there is none, and later where the device reports a fault. */
void kt_device(pare_kernels *k);

#endif
