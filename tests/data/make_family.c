/* Writes the small random checkpoint of a family, or lists the families.
 *
 *   make_family [scaled | FAMILY DIRECTORY] */
#include "tests/data/families.h"

int main(int argc, char **argv)
{
    const bool scaled = argc == 2 && strcmp(argv[1], "scaled") == 0;
    for (size_t i = 0; argc == 1 && i < FAMILIES; i++)
        (void)printf("%s\n", families[i].name);
    for (size_t i = 0; scaled && i < SCALED_FAMILIES; i++)
        (void)printf("%s\n", scaled_families[i].name);
    if (argc == 1 || scaled)
        return EXIT_SUCCESS;
    const family *const f = argc == 3 ? family_find(argv[1]) : NULL;
    if (!f) {
        (void)fprintf(stderr, "make_family [scaled | FAMILY DIRECTORY]\n");
        return EXIT_FAILURE;
    }
    if (family_write(f, argv[2]))
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "make_family: %s: %s\n", argv[2], strerror(errno));
    return EXIT_FAILURE;
}
