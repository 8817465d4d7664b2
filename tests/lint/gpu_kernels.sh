#!/bin/sh
# What the compiler made of the kernels for GPUs: gpu_kernels.sh ROOT FOLDER [VERSION], where FOLDER
# holds the <file>.ptxas (messages of ptxas -v) and <file>.ptx of each kernels/cuda/<file>.cu.
# kernels/cuda/registers.csv has registers and bytes of stack, spills and shared memory of each
# kernel on each chip: a kernel that needs more of one of them than its row fails. The number of
# registers counts for the version of nvcc that the first line of the table names.
# Memory of a thread (a stack, spills) fails in every kernel outside `may_spill`. So does a kernel
# without what kernels/cuda/instructions.csv asks for: sought in the PTX, where a load of 16 bytes
# or a product of matrices is one instruction of the processor.
# .ftz, .approx and atomics on floats fail: kernels round as the CPU does, and sums have an order.
# Without VERSION it prints the rows of a new table.
. "$(dirname "$0")/common.sh"
folder=$2
version=${3-}
table=kernels/cuda/registers.csv
# kernel,chip: two blocks a processor leave it 128 registers, and it keeps one number of 4 bytes in
# memory
may_spill=pare_gemm_x8_q3_cuda,sm_80

# Rows of the messages: kernel,chip,registers,stack,spills,shared.
rows() {
    cat "$folder"/*.ptxas | awk '
    /Compiling entry function/ { split($0, q, "\047"); name = q[2]; chip = q[4]; stack = spills = 0 }
    /bytes stack frame/        { stack = $1; spills = $5 + $9 }
    /Used [0-9]+ registers/    {
        shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART) + 0 : 0
        sub(/.*Used /, ""); print name "," chip "," $1 + 0 "," stack "," spills "," shared
    }' | LC_ALL=C sort
}

if ! ls "$folder"/*.ptxas > /dev/null 2>&1; then
    echo "this build has no kernels for GPUs (nvcc was not found, or PARE_CUDA is OFF)"
    exit 77
fi
if [ -z "$version" ]; then
    echo kernel,chip,registers,stack,spills,shared
    rows
    exit 0
fi
need "$(rows)"
for source in kernels/cuda/*.cu; do
    name=$(basename "$source" .cu)
    for end in ptxas ptx; do
        if [ ! -s "$folder/$name.$end" ]; then say "$source: $folder/$name.$end is missing"; fi
    done
done
found=$(rows | awk -F, -v table="$table" -v version="$version" -v few="$may_spill" '
    BEGIN {
        getline < table
        same = $0 == "# " version
        getline < table
        split($0, head, ",")
        while ((getline < table) > 0) {
            old[$1 "," $2] = 1
            for (i = 3; i <= 6; i++) most[$1 "," $2, i] = $i
        }
    }
    {
        key = $1 "," $2
        if ($4 + $5 > 0 && key != few)
            print $1 " for " $2 ": " $4 " bytes of stack, " $5 " of spills; kernels have none"
        if (!(key in old)) { print $1 " for " $2 " has no row (the head of this script says how to make the table)"; next }
        delete old[key]
        for (i = same ? 3 : 4; i <= 6; i++)
            if ($i > most[key, i])
                print $1 " for " $2 ": " head[i] " " $i ", more than " most[key, i]
    }
    END { for (key in old) print key " is no kernel of this build" }')
if [ -n "$found" ]; then say "$table: $found"; fi
lacking=$(cat "$folder"/*.ptx | awk -F, '
    FILENAME != "-" && FNR > 1 { kernels[++n] = "^pare_" $1 "_cuda$"; sought[n] = $2; what[n] = $3 }
    FILENAME != "-" { next }
    /\.entry/ { sub(/.*\.entry /, ""); sub(/\(.*/, ""); name = $0; split("", has) }
    name { for (i = 1; i <= n; i++) if ($0 ~ sought[i]) has[i] = 1 }
    name && /^}/ {
        for (i = 1; i <= n; i++)
            if (name ~ kernels[i]) {
                seen[i] = 1
                if (!has[i]) print name " has no " what[i]
            }
        name = ""
    }
    END {
        if (!n) print "nothing is asked for"
        for (i = 1; i <= n; i++) if (!seen[i]) print kernels[i] " is no kernel"
    }' kernels/cuda/instructions.csv -)
if [ -n "$lacking" ]; then say "kernels/cuda/instructions.csv: $lacking"; fi
bad=$(grep -HnE '[[:space:]]([a-z0-9_.]*\.(ftz|approx)|(atom|red)\.[a-z0-9_.:]*\.(f16|bf16|f32|f64))' \
    "$folder"/*.ptx || true)
if [ -n "$bad" ]; then say "not the arithmetic of the CPU: $bad"; fi
exit $failed
