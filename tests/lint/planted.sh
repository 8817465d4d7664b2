#!/bin/sh
# Every lint passes on a clean tree, catches a planted violation, and fails on an empty tree.
# planted.sh LINT-FOLDER CMAKE COMPILER
set -eu
lint=$(cd "$1" && pwd)
cmake=$2
cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

clean_tree() {
    rm -rf "$work/tree"
    mkdir "$work/tree"
    cd "$work/tree"
    for m in kernels runtime solve formats recipes calib quant prune distill compress tests; do
        mkdir $m
        echo "A folder." > $m/README.md
        printf '#ifndef %s_A_H\n#define %s_A_H\n\nint pare_%s(void);\n\n#endif\n' $m $m $m > $m/$m.h
        printf '#include "%s/%s.h"\n\nint pare_%s(void)\n{\n    return 0; /* free(p) in a comment */\n}\n' \
            $m $m $m > $m/$m.c
    done
    mkdir docs
    echo "A folder." > docs/README.md
    printf 'A tree.\n\n```sh\n./demo\n```\n\n' > README.md
    printf '| setting | bits per weight | MB |\n|---|---|---|\n| `a`, 4 bits | 4.25 | 1 | 9.5 | .25 | 2 |\n\n' \
        >> README.md
    mkdir tests/results
    echo '2026-01-01,0,cpu,real,a,4,64,-,-,1,2.1,1000000,4.2500,9.51,0.2513,.9,9' > tests/results/quality.csv
    echo '| a | b |' > docs/results.md
    printf '|---|---|\n| x, y | 1.5 |\n\nIt is 9.5.\n' >> docs/results.md
    sed -i '1i <!-- tests/results/a.csv -->' docs/results.md
    printf 'date,commit,a,b\n2026-01-01,0,"x, y",1.5\n' > tests/results/a.csv
    mkdir cmake
    echo '"$1"' > cmake/man.sh
    printf '#!/bin/sh\necho help\n' > cmake/pare
    chmod +x cmake/pare
    echo help > docs/recipe.md
    cp "$lint/../../.clang-format" .
    mkdir kernels/cuda ptx
    : > kernels/cuda/a.cu
    printf '# nvcc 1.0\nkernel,chip,registers,stack,spills,shared\npare_a_cuda,sm_80,8,0,0,64\n' \
        > kernels/cuda/registers.csv
    printf 'kernels,instruction,what\na.*,add\\.rn,sum\n' > kernels/cuda/instructions.csv
    gpu_build 8 0
    archive
}

# gpu_build REGISTERS SPILLS: what the compiler of a GPU leaves.
gpu_build() {
    printf "ptxas info    : Compiling entry function 'pare_a_cuda' for 'sm_80'\n" > ptx/a.ptxas
    printf '    0 bytes stack frame, %s bytes spill stores, %s bytes spill loads\n' "$2" "$2" >> ptx/a.ptxas
    printf 'ptxas info    : Used %s registers, used 1 barriers, 64 bytes smem\n' "$1" >> ptx/a.ptxas
    printf '.visible .entry pare_a_cuda(\n\tadd.rn.f32 \t%%f1, %%f2, %%f3;\n}\n' > ptx/a.ptx
}

archive() {
    "$cc" -I. -c quant/quant.c -o "$work/quant.o"
    rm -f "$work/tree.a"
    ar rc "$work/tree.a" "$work/quant.o"
}

run() {
    case $1 in
    layers) "$cmake" "-DROOT=$work/tree" -P "$lint/layers.cmake" ;;
    headers) sh "$lint/headers.sh" "$work/tree" "$cc" ;;
    pages) sh "$lint/pages.sh" "$work/tree" "$work/tree/cmake/pare" ;;
    symbols | cycles | floors) sh "$lint/$1.sh" "$work/tree" "$work/tree.a" ;;
    gpu_kernels) sh "$lint/gpu_kernels.sh" "$work/tree" "$work/tree/ptx" "nvcc 1.0" ;;
    *) sh "$lint/$1.sh" "$work/tree" ;;
    esac > "$work/log" 2>&1
}

# catches LINT WHAT COMMAND: COMMAND plants WHAT into the clean tree.
catches() {
    clean_tree
    code=0
    run "$1" || code=$?
    if [ $code = 77 ]; then return; fi
    if [ $code != 0 ]; then
        echo "$1 fails on a clean tree:"
        cat "$work/log"
        failed=1
    fi
    eval "$3"
    if run "$1"; then
        echo "$1 does not catch $2"
        failed=1
    fi
    find "$work/tree" -mindepth 1 -delete
    rm -f "$work/tree.a" && ar rc "$work/tree.a"
    if run "$1"; then
        echo "$1 passes on an empty tree"
        failed=1
    fi
}

catches commands 'a command that nobody would try' 'printf "\n\`\`\`\npare plan x.yaml\n\`\`\`\n" >> README.md'
catches layers 'quant including compress' 'echo "#include \"compress/compress.h\"" >> quant/quant.c'
catches layers 'a private header' \
    'touch formats/x_internal.h; echo "#include \"formats/x_internal.h\"" >> calib/calib.c'
catches layers 'an include without a folder' 'echo "#include \"quant.h\"" >> quant/quant.c'
catches layers 'threads in a block' 'echo "#include \"runtime/threads.h\"" >> runtime/forward_block.c'
catches banned 'malloc outside the arena' 'echo "void *p = malloc (1);" >> quant/quant.c'
catches banned 'strcpy' 'echo "x = (strcpy(a, b));" >> compress/compress.c'
catches banned 'printf behind a comment' 'echo "/* hm */ printf(s);" >> runtime/runtime.c'
catches banned 'a call behind a text' 'echo "f(\"/*\"); abort();" >> formats/formats.c'
catches banned 'atoi in a test' 'echo "int x = atoi(s);" >> tests/tests.c'
catches libraries 'BLAS in quant' 'echo "#include <cblas.h>" >> quant/quant.c'
catches libraries 'jansson in recipes' 'echo "#include <jansson.h>" >> recipes/recipes.c'
catches libraries 'PCRE2 in formats' 'echo "#include <pcre2.h>" >> formats/formats.c'
catches libraries 'libyaml in formats' 'echo "#  include <yaml.h>" >> formats/formats.c'
catches libraries 'libcrypto in compress' 'echo "#include <openssl/evp.h>" >> compress/compress.c'
catches libraries 'zstd in compress' 'echo "#include <zstd.h>" >> compress/compress.c'
catches libraries 'libhdf5 outside its process' 'echo "#include <hdf5.h>" >> formats/formats.c'
catches names 'one name twice' 'cp quant/quant.c compress/quant.c'
catches headers 'a header that needs another' 'echo "size_t pare_x(void);" >> quant/quant.h'
catches headers 'a header without a guard' 'echo "struct pare_x { int x; };" >> quant/quant.h'
catches symbols 'an export without the prefix' \
    'printf "int quick(void);\nint quick(void)\n{\n    return 0;\n}\n" >> quant/quant.c; archive'
catches cycles 'files that call each other' \
    'echo "void pare_b(void); void pare_a(void); void pare_a(void) { pare_b(); }" > "$work/one.c"
    echo "void pare_a(void); void pare_b(void); void pare_b(void) { pare_a(); }" > "$work/two.c"
    (cd "$work" && "$cc" -c one.c two.c && ar r tree.a one.o two.o)'
catches floors 'a plan that includes what runs it' \
    'mkdir -p compress/plan compress/run; touch compress/run/run.h
    echo "#include \"compress/run/run.h\"" > compress/plan/plan.c'
catches floors 'a plan that includes the main job' \
    'mkdir compress/plan; echo "#include \"compress/compress.h\"" > compress/plan/plan.h'
catches floors 'a plan that calls what runs it' \
    'mkdir compress/plan compress/run
    echo "void pare_b(void); void pare_a(void); void pare_a(void) { pare_b(); }" > compress/plan/one.c
    echo "void pare_b(void); void pare_b(void) { }" > compress/run/two.c
    "$cc" -c compress/plan/one.c -o "$work/one.c.o"; "$cc" -c compress/run/two.c -o "$work/two.c.o"
    (cd "$work" && ar r tree.a one.c.o two.c.o)'
catches floors 'a private header of another folder' \
    'mkdir compress/run; echo "#include \"compress/plan/plan_internal.h\"" > compress/run/run.c'
catches floors 'a folder without a floor' 'mkdir compress/new; touch compress/new/new.c'
catches readmes 'a folder without README' 'rm calib/README.md'
catches readmes 'a long README of a folder' 'yes "one more sentence" | head -n 300 >> calib/README.md'
catches readmes 'a long first page' 'yes "one more sentence" | head -n 400 >> README.md'
catches sizes 'a long file' 'yes "" | head -n 700 >> quant/quant.c'
catches words 'a path of a machine' 'echo "cd /ho""me/somebody/pare" >> README.md'
catches figures 'a figure that nobody measured' 'sed -i "s/ 9.5 / 9.4 /" README.md'
catches figures 'figures of another method' 'sed -i "s/.a., 4 bits/b/" README.md'
catches figures 'a cell that no run has' 'sed -i "s/ 1.5 / 1.6 /" docs/results.md'
catches figures 'a table without its file' 'sed -i 1d docs/results.md'
catches figures 'a row without a commit' 'sed -i "s/,0,\"x/,,\"x/" tests/results/a.csv'
catches figures 'a figure in prose that nobody measured' 'echo "It is 9.4." >> docs/results.md'
catches pages 'a page that is not the help' 'echo more >> docs/recipe.md'
catches pages 'a file as prose' 'echo "echo pare: 1 recipe: a" >> cmake/pare; cmake/pare > docs/recipe.md'
catches gpu_kernels 'a register more' 'gpu_build 9 0'
catches gpu_kernels 'a spill' 'gpu_build 8 4'
catches gpu_kernels 'a spill that has a row' 'gpu_build 8 4; sed -i s/,8,0,0/,8,0,8/ kernels/cuda/registers.csv'
catches gpu_kernels 'a kernel without its instruction' 'sed -i s/add.rn/sub.rn/ ptx/a.ptx'
catches gpu_kernels 'an instruction of no kernel' 'echo "b,add,sum" >> kernels/cuda/instructions.csv'
catches gpu_kernels 'a kernel without a row' 'sed -i s/pare_a/pare_b/ ptx/a.ptxas'
catches gpu_kernels 'a source that was not compiled' ': > kernels/cuda/b.cu'
catches gpu_kernels 'an approximate root' 'printf "\trsqrt.approx.f32 \t%%f1, %%f2;\n" >> ptx/a.ptx'
catches gpu_kernels 'an atomic on floats' 'printf "\t@%%p1 red.global.add.f32 \t[%%rd1], %%f2;\n" >> ptx/a.ptx'
catches format 'a wrong indentation' 'echo "  int  pare_y ;" >> quant/quant.c'
exit $failed
