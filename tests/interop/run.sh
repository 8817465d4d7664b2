#!/bin/bash
# Runs a script of this folder in the environment of venv.sh: run.sh FOLDER SCRIPT ARGUMENT...
# Exits with 77 where the environment or a folder among the arguments is missing.
folder=$1 script=$2
shift 2
here=$(dirname "${BASH_SOURCE[0]}")
for argument; do
    if [[ $argument = /* && ! -e $argument ]]; then
        echo "skipped: $argument is absent"
        exit 77
    fi
done
python=$("$here/venv.sh" "$folder") || exit
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$here/$script" "$@"
