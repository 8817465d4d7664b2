#!/bin/sh
# Headers of a library are included from one folder only. libraries.sh ROOT
. "$(dirname "$0")/common.sh"

# only PLACE HEADERS: an include of HEADERS (an expression) anywhere else is a finding.
only() {
    for file in $files; do
        case $file in
        $1) continue ;;
        esac
        found=$(grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]($2)[>\"]" "$file" || true)
        if [ -n "$found" ]; then say "$file: $found belongs in $1"; fi
    done
}

files=$(sources $modules)
need "$files"
only 'runtime/*' 'cblas[^>"]*|openblas[^>"]*|lapack[^>"]*|pcre2[^>"]*'
only 'formats/*' 'jansson[^>"]*|utf8proc[^>"]*|xxh[^>"]*|xxHash[^>"]*|openssl/[^>"]*|sha2.h|sha256.h|md5.h'
only 'formats/archive_stretch.c' 'zstd.h|zdict.h|zstd_errors.h'
only 'recipes/*' 'yaml.h'
only 'formats/hdf5_helper*.c' 'hdf5.h|H5[^>"/]*'
only 'runtime/world_mpi.c' 'mpi.h'
exit $failed
