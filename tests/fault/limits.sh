#!/bin/sh
# Every command under limits of the shell, from what the loader needs to what compressing needs: exit
# code 0, or 5 with the limit and both figures in the message, in time, and no output that is torn.
#   limits.sh PARE MAKE_CHECKPOINT DEMO
# PARE is a program without sanitizers, which need more addresses than any limit (else 77).
set -eu
pare=$1 make=$2 demo=$3

skip() {
    echo "fault.limits: skipped: $1"
    exit 77
}

[ -x "$pare" ] || skip "$pare is not there"
if nm "$pare" 2> /dev/null | grep -q '__[at]san_init'; then skip "the program has a sanitizer in it"; fi
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
"$make" model hidden=64 intermediate=96 blocks=2 heads=4 kv_heads=2 head_dim=16 vocab=4096 \
    context=64 tied=1 shards=1 tokens=512 > log.txt
cp "$demo/hedge/tokenizer.json" "$demo/hedge/tokenizer_config.json" model/
cat > recipe.yaml << 'END'
pare: 1
model: model/
output: out/
calibration: {tokens: model/tokens.i32, samples: 4, window: 32}
passes:
  - gptq: {bits: 4, group: 32}
END
"$pare" compress recipe.yaml --output packed --threads 2 > log.txt 2>&1 || { cat log.txt; exit 1; }

failed=0 runs=0
say() {
    echo "fault.limits: $*"
    cat error.txt
    failed=1
}

# try FLAG KIB COMMAND...: its exit code in $code.
try() {
    flag=$1 kib=$2
    shift 2
    runs=$((runs + 1)) code=0
    (ulimit "-$flag" "$kib" && exec timeout -k 1 60 "$pare" "$@") > result.txt 2> error.txt || code=$?
    if [ $code -ne 0 ] && [ $code -ne 5 ]; then
        say "ulimit -$flag $kib: pare $*: exit code $code"
    elif [ $code -eq 5 ] && { ! grep -q 'ulimit -[vd])' error.txt ||
        [ "$(grep -oE '[0-9.]+ ([KM]i)?B' error.txt | wc -l)" -lt 2 ]; }; then
        say "ulimit -$flag $kib: pare $*: a message without the limit and two figures"
    fi
}

# series FLAG LIMITS MOST COMMAND...: refused by 5 below, done at the largest.
series() {
    flag=$1 limits=$2 wants=$3
    shift 3
    refused=0
    for kib in $limits; do
        rm -rf out exported
        try "$flag" "$kib" "$@"
        if [ $code -eq 5 ]; then refused=$((refused + 1)); fi
        if [ $code -ne 0 ] && [ -e out ]; then say "ulimit -$flag $kib: pare $*: left an output"; fi
        if [ -e exported ] && [ $code -ne 0 ]; then say "ulimit -$flag $kib: pare $*: left a file"; fi
    done
    if [ $code -ne 0 ]; then say "ulimit -$flag $kib: pare $*: not done under the largest limit"; fi
    if [ "$wants" = some ] && [ $refused -eq 0 ]; then say "ulimit -$flag: pare $*: never refused"; fi
}

# What the loader and the start of libraries need is not ours to refuse: they say so by 127, or die of
# it (libgfortran, by 139) before main begins.
least=8192 code=127
while { [ $code -eq 127 ] || [ $code -eq 139 ]; } && [ $least -lt 262144 ]; do
    least=$((least + 1024)) code=0
    (ulimit -v $least && exec timeout -k 1 60 "$pare" help) > result.txt 2>&1 || code=$?
done
if [ $code -ne 0 ]; then
    echo "fault.limits: ulimit -v $least: pare help: exit code $code"
    exit 1
fi
# Where the stack and libraries begin is random, so the same command needs a page more or less each time.
least=$((least + 64))
echo "fault.limits: the loader needs $least KiB"

# all FLAG LIMITS
all() {
    series "$1" "$2" any help
    series "$1" "$2" any doctor
    series "$1" "$2" any inspect packed
    series "$1" "$2" some verify packed --threads 2
    series "$1" "$2" some plan recipe.yaml --threads 2
    series "$1" "$2" some compress recipe.yaml --threads 2
    series "$1" "$2" some eval packed --tokens model/tokens.i32 --window 32 --threads 2
    series "$1" "$2" some generate packed --prompt the --tokens 4 --threads 2
    series "$1" "$2" some export packed --format gptq --output exported --threads 2
    series "$1" "$2" some bench model packed --quick --prompt 8 --output 4 --batch 1 --runs 1 --threads 2
}
all v "$least $((least + 2048)) $((least + 6144)) $((least + 65536)) \
    $((least + 163840)) $((least + 266240)) 524288"
all d "1536 3072 6144 65536 266240 524288"
# Where libraries just fit or just do not: what keeps every command from its start, or 5.
starts=0 code=0
rm -rf out
(ulimit -d 1024 && exec timeout -k 1 60 "$pare" help) > result.txt 2>&1 || starts=$?
(ulimit -d 1024 && exec timeout -k 1 60 "$pare" compress recipe.yaml --threads 2) \
    > result.txt 2> error.txt || code=$?
runs=$((runs + 1))
if { [ $code -ne 5 ] && { [ $starts -eq 0 ] || [ $code -ne $starts ]; }; } || [ -e out ]; then
    say "ulimit -d 1024: pare compress: exit code $code (help: $starts), or an output"
fi
# JSON that does not fit is no damage.
series d "2560 2688 2816 2944 3072 3200 3328 3456 3584 3840 4096 8192" some verify packed --threads 2
# The same of a tokenizer; and no stack that grows where all addresses are in use.
series v "$(seq -s ' ' "$least" 64 $((least + 8192))) 524288" some generate packed --prompt the --tokens 4 --threads 2
try v $((least + 65536)) bench kernels --quick --threads 2
[ $code -eq 5 ] || say "the OpenBLAS baseline ran in 64 MiB"
try v $((least + 65536)) bench kernels --quick --no-baseline --threads 2
[ $code -eq 0 ] || say "kernels did not run in 64 MiB without the baseline"
echo "fault.limits: $runs runs"
exit $failed
