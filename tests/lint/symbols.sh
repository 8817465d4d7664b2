#!/bin/sh
# The archive exports pare_* (pare__* inside a folder) and nothing else. symbols.sh ROOT ARCHIVE
. "$(dirname "$0")/common.sh"

symbols=$(nm -g --defined-only "$2" | awk 'NF == 3 { print $3 }')
need "$symbols"
for symbol in $symbols; do
    case $symbol in
    pare_* | __odr_asan*pare_*) ;;
    *) say "$2 exports $symbol" ;;
    esac
done
exit $failed
