/* Where a model ran, as the commands say it. */
#include "compress/cli/cli.h"
#include "compress/text/units.h"

const char *pare_ran_on_text(const pare_ran_on *r, char text[PARE_DEVICE_TEXT])
{
    char model[PARE_UNIT_TEXT], peak[PARE_UNIT_TEXT];
    if (!r->device) {
        (void)snprintf(text, PARE_DEVICE_TEXT, "CPU%s%s", r->fallback ? ": " : "",
                       r->fallback ? r->fallback : "");
        return text;
    }
    (void)snprintf(text, PARE_DEVICE_TEXT, "%s%s: the model takes %s of its memory, all %s at most",
                   r->device, r->f16 ? ", products of floats in F16" : "",
                   pare_units_bytes(r->model_bytes, model), pare_units_bytes(r->peak_bytes, peak));
    return text;
}

void pare_json_put_ran_on(pare_json_writer *w, const pare_ran_on *r)
{
    if (r->fallback)
        pare_json_put_text(w, "device_fallback", r->fallback);
    if (!r->device)
        return;
    pare_json_open_object(w, "device");
    pare_json_put_text(w, "name", r->device);
    pare_json_put_text(w, "products", r->f16 ? "f16" : "exact");
    pare_json_put_integer(w, "model_bytes", (int64_t)r->model_bytes);
    pare_json_put_integer(w, "peak_bytes", (int64_t)r->peak_bytes);
    pare_json_close(w);
}
