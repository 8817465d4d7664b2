#!/bin/sh
# install.sh ROOT BUILD CMAKE COMPILER FLAGS: what is installed can be used. A program that includes
# every installed header is built against a fresh prefix twice, with find_package and with
# pkg-config, and run. The installed recipes can be planned, and bash completes words.
set -eu
root=$1 build=$2 cmake=$3 compiler=$4 flags=${5-}
. "$root/tests/lint/common.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
log=$dir/log

stop() {
    cat "$log" >&2
    echo "install: $1" >&2
    exit 1
}

"$cmake" --install "$build" --prefix "$dir/prefix" > "$log" 2>&1 || stop "cannot install"
"$dir/prefix/bin/pare" --version > "$log" 2>&1 || stop "the installed program does not run"

if [ -x "$build/pare-hdf5" ]; then
    printf '\211HDF\r\n\032\n' > "$dir/cut.h5"
    "$dir/prefix/bin/pare" inspect "$dir/cut.h5" > "$log" 2>&1 || true
    grep -q 'not an HDF5 file, truncated' "$log" ||
        stop "the installed program does not find the installed pare-hdf5"
fi

share=$dir/prefix/share
for file in bash-completion/completions/pare zsh/site-functions/_pare \
    fish/vendor_completions.d/pare.fish man/man1/pare.1 man/man5/pare-recipe.5 doc/pare/LICENSE \
    pare/recipes/awq.yaml pare/recipes/demo/hedge/config.json; do
    [ -s "$share/$file" ] || stop "share/$file is missing or empty"
done
for line in '.SH "PARE COMPRESS"' '  \-\-ram\-limit SIZE       ' '.SH "EXIT STATUS"' '.SH "Pass: gptq"'; do
    cat "$share/man/man1/pare.1" "$share/man/man5/pare-recipe.5" | grep -qF -- "$line" ||
        stop "the pages for man lack $line"
done
if [ -e "$share/pare/recipes/demo/out" ]; then stop "outputs of the demo are installed"; fi
for recipe in awq demo/w4-gptq; do
    "$dir/prefix/bin/pare" plan "$share/pare/recipes/$recipe.yaml" --output "$dir/out" \
        > "$log" 2>&1 || stop "the installed recipe $recipe.yaml cannot be planned"
done

# complete LINE WORDS: what bash offers for the last word of LINE.
complete() {
    bash -c '. "$1"; COMP_LINE=$2 COMP_POINT=${#2}; _pare; echo "${COMPREPLY[*]}"' _ \
        "$share/bash-completion/completions/pare" "$1" > "$log" 2>&1 || stop "completion fails"
    [ "$(cat "$log")" = "$2" ] || stop "\"$1\" is not completed to \"$2\""
}
if command -v bash > /dev/null; then
    complete 'pare compr' 'compress'
    complete 'pare compress recipe --ram' '--ram-limit'
    complete 'pare plan recipe --format=j' 'json'
    complete 'pare export out --format gguf:q4_' 'q4_0 q4_1 q4_k q4_k_s q4_k_m'
    complete 'pare init model --preset w' 'w4a16 w8a8 w2'
    complete 'pare help evalu' 'evaluate'
    complete 'pare plan re' ''
fi

{
    (cd "$dir/prefix/include/pare" && find . -name '*.h' | sort | sed 's|^\./\(.*\)|#include "\1"|')
    cat << 'END'
#include <stdio.h>

int main(void)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    return puts(pare_blas_name()) > 0 ? 0 : 1;
}
END
} > "$dir/main.c"
grep -q '"quant/gptq.h"' "$dir/main.c" || stop "headers are missing"
cat > "$dir/CMakeLists.txt" << 'END'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(pare REQUIRED)
add_executable(consumer main.c)
target_link_libraries(consumer PRIVATE pare::pare)
END
"$cmake" -S "$dir" -B "$dir/build" -DCMAKE_PREFIX_PATH="$dir/prefix" -DCMAKE_C_COMPILER="$compiler" \
    -DCMAKE_C_FLAGS="$flags" > "$log" 2>&1 || stop "find_package(pare) fails"
"$cmake" --build "$dir/build" > "$log" 2>&1 || stop "a program does not build with find_package"
"$dir/build/consumer" > "$log" 2>&1 || stop "the program built with find_package does not run"

pc=$(dirname "$(find "$dir/prefix" -name pare.pc)")
options=$(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs pare 2> "$log") || stop "pkg-config fails"
# shellcheck disable=SC2086 # flags are words
"$compiler" $flags "$dir/main.c" -o "$dir/consumer" $options > "$log" 2>&1 ||
    stop "a program does not build with pkg-config"
"$dir/consumer" > "$log" 2>&1 || stop "the program built with pkg-config does not run"
