/* tests/fuzz/replay.c - runs a fuzz target over every file of a folder, once each, in order of the
 * names. No files is an error: a check without input must fail. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* The bytes lie in an object of exactly their size, so that a sanitizer sees one byte too far. */
static int run_file(const char *path)
{
    FILE *const f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) {
        perror(path);
        return 1;
    }
    const long size = ftell(f);
    rewind(f);
    const size_t len = size > 0 ? (size_t)size : 0;
    uint8_t *const bytes = malloc(len ? len : 1);
    const int bad = !bytes || fread(bytes, 1, len, f) != len;
    if (bad)
        (void)fprintf(stderr, "%s: cannot be read\n", path);
    else
        (void)LLVMFuzzerTestOneInput(bytes, len);
    free(bytes);
    (void)fclose(f);
    return bad;
}

int main(int argc, char **argv)
{
    struct dirent **entry = NULL;
    const int entries = argc == 2 ? scandir(argv[1], &entry, NULL, alphasort) : -1;
    int files = 0, failures = 0;
    for (int i = 0; i < entries; i++) {
        char path[4096];
        const int n = snprintf(path, sizeof path, "%s/%s", argv[1], entry[i]->d_name);
        if (entry[i]->d_name[0] != '.' && n > 0 && (size_t)n < sizeof path) {
            failures += run_file(path);
            files++;
        }
        free(entry[i]);
    }
    free(entry);
    (void)printf("%d files\n", files);
    return files == 0 || failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
