#!/bin/bash
# Exports of pare in the engines they are for: heavy.sh BUILD SHARED [NAME ...]. Makes two Python
# environments in build/interop (gigabytes of wheels; llama.cpp is compiled), once, and runs
# engines.py, which writes results.csv. An environment that cannot be had leaves out its rows, with a
# line; with none of them the exit code is 77. Without names foreign.py runs first.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "$1" && pwd) shared=$2
shift 2
folder=$root/build/interop

torch=(torch==2.15.0 transformers==5.23.0 compressed-tensors==0.20.0 gptqmodel==7.7.0 optimum==2.3.0)
llama=(numpy==2.4.6 llama_cpp_python==0.3.36)
# llama.cpp for the processor, without what the comparison does not need
export CMAKE_ARGS="-DLLAVA_BUILD=OFF -DGGML_OPENMP=OFF -DLLAMA_OPENSSL=OFF"
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL-$(nproc)}

# environment NAME PACKAGE...: a virtual environment with these packages, once; false without them.
environment() {
    local home=$folder/$1 wanted="${*:2}"
    if [ "$(cat "$home/ready" 2> /dev/null)" = "$wanted" ]; then return 0; fi
    rm -rf "$home"
    mkdir -p "$folder"
    echo "Installing $wanted ..."
    if ! { python3 -m venv "$home" &&
        nice -n 5 "$home/bin/pip" install --disable-pip-version-check --retries 1 --timeout 60 \
            "${@:2}"; } > "$folder/$1.install.log" 2>&1; then
        echo "skipped: $1: $(tail -n 1 "$folder/$1.install.log") ($folder/$1.install.log)"
        return 1
    fi
    echo "$wanted" > "$home/ready"
}

missing=0
environment torch "${torch[@]}" || missing=$((missing + 1))
environment llama "${llama[@]}" || missing=$((missing + 1))
if [ $missing = 2 ]; then exit 77; fi
export PYTHONDONTWRITEBYTECODE=1
code=0
if [ $# = 0 ] && [ -e "$folder/torch/ready" ]; then
    "$folder/torch/bin/python" "$here/foreign.py" "$build" "$root/recipes/demo/hedge" \
        "$root/recipes/demo/evaluation.txt" "$folder/work" || code=1
fi
python3 "$here/engines.py" "$build" "$root" "$shared" "$folder" "$folder/work" "$@" || code=1
exit $code
