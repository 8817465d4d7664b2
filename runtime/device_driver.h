/* runtime/device_driver.h - the device of an NVIDIA GPU, by its driver. */
#ifndef PARE_RUNTIME_DEVICE_DRIVER_H
#define PARE_RUNTIME_DEVICE_DRIVER_H

#include "runtime/device.h"

/* Opens the first GPU that the driver shows (CUDA_VISIBLE_DEVICES chooses) and loads the kernels of
 * `images`, compiled modules ended by NULL that live as long as the device. The driver's library
 * libcuda.so.1 is opened at run time; it need not be there to start the program.
 *
 * PARE_EDEVICE, saying what to do: no such library, one that is too old, no GPU, a GPU that the
 * kernels do not run on, anything else that the driver reports. PARE_ENOMEM, of the host and of the
 * GPU. */
PARE_CHECKED pare_status pare_device_driver_open(pare_ctx *cx, const void *const *images,
                                                 pare_device **d);

#endif
