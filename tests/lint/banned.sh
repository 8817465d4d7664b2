#!/bin/sh
# Functions that the code must not call. banned.sh ROOT
. "$(dirname "$0")/common.sh"

memory='malloc|calloc|realloc|free|strdup|strndup|asprintf|alloca|aligned_alloc|posix_memalign'
unsafe='strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atoll|atof|rand|srand|random|strtok'
process='printf|vprintf|fprintf|vfprintf|puts|fputs|putchar|perror|exit|abort|setenv|putenv|system'

# refuse FILE NAMES: no call of a function of NAMES in FILE.
refuse() {
    found=$(code "$1" | grep -nE "(^|[^A-Za-z0-9_])($2)[[:space:]]*\\(" || true)
    if [ -n "$found" ]; then say "$1: a function that is banned here:
$found"; fi
}

library=$(sources $modules)
need "$library"
for file in $library; do
    refuse "$file" "$unsafe"
    case $file in
    runtime/arena.c | runtime/context.c) ;;
    *) refuse "$file" "$memory" ;;
    esac
    case $file in
    compress/cli/* | compress/bench/baseline.c) ;; # the program, and its child process
    *) refuse "$file" "$process" ;;
    esac
done
for file in $(sources tests); do
    refuse "$file" "$unsafe"
done
exit $failed
