/* Alone in its file: the programs of the tests bring a function of this name, which opens an
 * interpreter. */
#include "kernels/cuda/cuda_images.h"
#include "runtime/device_driver.h"

pare_status pare_device_open(pare_ctx *cx, pare_device **d)
{
    *d = NULL;
    if (!pare_cuda_images[0])
        return pare_fail(cx, PARE_EDEVICE,
                         "this pare was built without kernels for GPUs; build it where nvcc of a "
                         "CUDA toolkit is found (cmake -DPARE_CUDA=ON)");
    return pare_device_driver_open(cx, pare_cuda_images, d);
}
