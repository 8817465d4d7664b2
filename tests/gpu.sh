#!/bin/sh
# Everything that a machine with an NVIDIA GPU can say: builds, tests on the device, times. One table,
# and the same as JSON, in tests/results/gpu.
#   tests/gpu.sh            all of it, in a build of its own (build/gpu), under 8 minutes
#   tests/gpu.sh DIR        with the programs of the build DIR (target gpu), where nothing can be built
#   tests/gpu.sh --dry DIR  lists what it would do with the programs of the build DIR, and fails for
#                           one that is not there
#   tests/gpu.sh --trial DIR OUT
#                           the way to the table and to OUT.txt, OUT.json without a GPU: small times
#                           of the interpreter of the build DIR, and no tests
# A step that takes too long fails alone; what comes behind it still runs.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
limit=465 # seconds
dry='' trial='' made='' out='' failed=0
build=$root/build/gpu
case ${1-} in
--dry) dry=1 made=1 build=$2 ;;
--trial) trial=1 made=1 build=$2 out=$3 ;;
?*) made=1 build=$1 ;;
esac
[ -z "$made" ] || build=$(cd "$build" && pwd) || exit 1
cd "$root" # tests name files of the tree
begin=$(date +%s)
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT

# Where a program lies in a build.
at() {
    case $trial$1 in
    pare) echo "$build/pare" ;;
    1pare) echo "$build/tests/ptx/pare_interpreted" ;;
    1speed) echo "$build/tests/gpu/gpu_speed_interpreted" ;;
    make_checkpoint) echo "$build/tests/fault/make_checkpoint" ;;
    *) echo "$build/tests/gpu/gpu_$1" ;;
    esac
}

# row STEP RESULT: a line of the table, and one for the JSON.
row() {
    printf '%-52s %s\n' "$1" "$2"
    printf '%s\t%s\n' "$1" "$2" >> "$home/rows"
}

# step SECONDS NAME COMMAND...: runs it for so long at most. Its output goes to the file log, its errors
# to the file errors.
step() {
    most=$1 name=$2
    shift 2
    if [ -n "$dry" ]; then
        echo "would run for $most s at most: $name: $*"
        return
    fi
    start=$(date +%s)
    rest=$((limit - (start - begin)))
    [ "$most" -le "$rest" ] || most=$rest
    if [ "$most" -lt 5 ]; then
        failed=1
        row "$name" 'FAILED: no time is left'
        return
    fi
    code=0
    timeout -k 5 "$most" "$@" > "$home/log" 2> "$home/errors" || code=$?
    case $code in
    0)
        row "$name" "passed in $(($(date +%s) - start)) s"
        return
        ;;
    77)
        row "$name" "$(tail -n 1 "$home/log" | sed 's/^.*skipped: /skipped: /')"
        return
        ;;
    124 | 137) row "$name" "FAILED: not done after $most s" ;;
    *) row "$name" "FAILED with exit code $code" ;;
    esac
    failed=1
    {
        echo "== $name"
        tail -n 30 "$home/log" "$home/errors"
    } >> "$home/failures"
    tail -n 30 "$home/log" "$home/errors"
}

# test_step: a step that the trial leaves out.
test_step() {
    [ -n "$trial" ] || step "$@"
}

# speed WEIGHTS OPTION...: decoding and prefill of a synthetic model.
speed() {
    weights=$1
    shift
    step 40 "bench model, $weights" "$(at pare)" bench model --weights "$weights" "$@" --device cuda \
        --format json --no-progress
    [ -n "$dry" ] || cp "$home/log" "$home/bench-$weights.json"
}

# What nvidia-smi says.
gpu() {
    if [ -n "$trial" ]; then
        echo 'interpreter of PTX, no driver'
    else
        nvidia-smi "--query-gpu=$1" --format=csv,noheader | head -n 1
    fi
}

for program in pare make_checkpoint kernels f16 model families speed; do
    if [ -n "$made" ] && [ ! -x "$(at $program)" ]; then
        [ -z "$trial" ] || [ $program = pare ] || [ $program = speed ] || continue
        echo "tests/gpu.sh: $(at $program) is not built"
        exit 1
    fi
done
if [ -n "$dry" ]; then
    echo "would build: $root/build/gpu with PARE_CUDA=ON, target gpu"
elif [ -z "$trial" ]; then
    command -v nvidia-smi > /dev/null || { echo 'skipped: there is no NVIDIA GPU here (no nvidia-smi)'; exit 77; }
    if [ -z "$made" ]; then
        if ! cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DPARE_TESTS=ON -DPARE_CUDA=ON > "$home/log" 2>&1 ||
            ! cmake --build "$build" -j "$(nproc)" --target gpu >> "$home/log" 2>&1; then
            tail -n 30 "$home/log"
            exit 1
        fi
        row build "made in $(($(date +%s) - begin)) s"
    fi
fi
[ -n "$dry" ] || row device "$(gpu name,driver_version,memory.total)"

# A process that has forked cannot use CUDA: tests run in one.
export CK_FORK=no CK_DEFAULT_TIMEOUT=600
for kernel in gemm_x8_s8 gemm_x8_s4; do
    test_step 30 "2:4 products, metadata of mma.sp: $kernel" "$(at kernels)" $kernel
done
test_step 60 'products, decoding and rotations against references' "$(at kernels)"
test_step 30 'products of F16 within their bound' "$(at f16)"
test_step 60 'models of every kind of weights' "$(at model)"
if [ -n "$trial" ]; then
    step 200 'times of kernels' "$(at speed)" --small
else
    step 110 'times of kernels' "$(at speed)" --seconds 90
fi
[ -n "$dry" ] || cp "$home/log" "$home/speed.jsonl"
if [ -n "$trial" ]; then
    speed int4 --shape tiny --batch 1 --prompt 8 --output 4 --quick
else
    for weights in int4 int8 ternary 2:4-int4 f16; do
        speed "$weights" --shape 1b --batch 1,8 --prompt 128 --output 33
    done
fi
test_step 60 'models of every family' "$(at families)"
test_step 90 'whole commands against the CPU' sh "$root/tests/e2e/device.sh" "$(at pare)" "$(at pare)" \
    "$(at make_checkpoint)" "$root/recipes/demo"
# Calls that fail are no mistakes by themselves: the driver is asked for kernels module by module.
quiet='--report-api-errors no'
if [ -n "$dry" ] || command -v compute-sanitizer > /dev/null; then
    test_step 60 'compute-sanitizer memcheck, kernels' compute-sanitizer --tool memcheck --error-exitcode 1 \
        $quiet "$(at speed)" --small
    for tool in memcheck racecheck; do
        test_step 60 "compute-sanitizer $tool, models" env CK_RUN_CASE=short \
            compute-sanitizer --tool $tool --error-exitcode 1 $quiet "$(at model)"
    done
else
    row compute-sanitizer 'not installed'
fi
[ -z "$dry" ] || exit 0

if [ -z "$out" ]; then
    mkdir -p "$root/tests/results/gpu"
    out=$root/tests/results/gpu/$(date +%Y-%m-%d)-$(gpu name | tr ' /' '--')
fi
commit=$(git -C "$root" rev-parse --short HEAD 2> /dev/null || echo unknown)
python3 "$root/tests/gpu/report.py" "$home" "$commit" "$out" || failed=1
exit $failed
