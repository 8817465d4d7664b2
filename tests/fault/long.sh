#!/bin/sh
# The long forms of the tests that break the machine, by hand: kills, failing calls, power losses, full disks.
#
#   nice -n 15 tests/fault/long.sh PARE [ROUNDS]
#
# PARE is the program of a build; the tests are taken from beside it. ROUNDS (70) is how often each row of kills starts:
# a round makes 1.6 kills that hit, so the ten rows make a thousand. One line for each part, an exit status other than 0 when
# one of them found something. Takes an hour or two.
set -u
pare=${1:?long.sh PARE [ROUNDS]}
rounds=${2:-70}
tests=$(dirname "$pare")/tests/fault
failed=0

part() {
    "$@" || { echo "long.sh: found something: $*"; failed=1; }
}

seed=1
kills=0
for row in "job:rtn fresh" "job:rtn restart" "job:gptq fresh" "job:gptq restart" "job:sparse fresh" "job:sparse restart" \
    "job:experts fresh" "job:flap restart" "job:sparse export-restart:safetensors" "job:rtn export-restart:gguf:q4_0"; do
    set -- $row
    line=$(part "$tests/kill_resume" "$pare" "$tests/libshim_fail.so" "$rounds" "$1" $seed "$2")
    echo "$line"
    hit=$(echo "$line" | sed -n 's/.*kills of which *\([0-9]*\) hit.*/\1/p')
    kills=$((kills + ${hit:-0}))
    case $line in *"found something"*) failed=1 ;; esac
    seed=$((seed + 1))
done
echo "kills: $kills that hit a running program"
part "$tests/call_faults" "$pare" "$tests/libshim_fail.so" long
part "$tests/small_disk" "$pare" "$tests/libshim_fail.so" long
part "$tests/power_loss" "$pare" "$tests/libshim_record.so" long
exit $failed
