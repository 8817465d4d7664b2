#!/bin/bash
# A Python environment with the packages of the light interop tests: venv.sh FOLDER. Builds it once
# (under a lock: tests run side by side) and prints the path of its python. Where the packages cannot
# be had, says so in one line and exits with 77: skipped. A failure is kept for ten minutes, so that
# not every test waits for the same time-out.
set -u
packages=(numpy h5py safetensors tokenizers sentencepiece gguf)
folder=$1

mkdir -p "$folder"
exec 9> "$folder/lock"
flock 9
more=(xllamacpp) # not for every platform; what needs it says so
wanted="${packages[*]} ${more[*]}"
if [ "$(cat "$folder/ready" 2> /dev/null)" != "$wanted" ]; then
    if [ -n "$(find "$folder/failed" -mmin -10 2> /dev/null)" ]; then
        echo "skipped: Python packages ($wanted) could not be installed" >&2
        exit 77
    fi
    rm -rf "$folder/venv" "$folder/ready" "$folder/failed"
    if ! { python3 -m venv "$folder/venv" &&
        timeout 300 "$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
            --retries 1 --timeout 15 "${packages[@]}"; } > "$folder/log" 2>&1; then
        touch "$folder/failed"
        echo "skipped: Python packages ($wanted) could not be installed: $(tail -n 1 "$folder/log")" >&2
        exit 77
    fi
    timeout 300 "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 \
        --timeout 15 --only-binary :all: "${more[@]}" >> "$folder/log" 2>&1
    echo "$wanted" > "$folder/ready"
fi
echo "$folder/venv/bin/python"
