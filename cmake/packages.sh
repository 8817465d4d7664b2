# Debian packages, and how demo and check install them. Sourced by both.

PARE_BUILD_PACKAGES=(build-essential cmake ninja-build pkg-config libopenblas-pthread-dev liblapacke-dev
    libyaml-dev libjansson-dev libpcre2-dev libutf8proc-dev libxxhash-dev libssl-dev
    libzstd-dev libhdf5-dev)
PARE_CHECK_PACKAGES=("${PARE_BUILD_PACKAGES[@]}" check binutils clang-format-14)
# for kernels of the other processors: a compiler and an emulator
PARE_CHECK_PACKAGES+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
# for packages of others that read what pare writes, and for the schemas of JSON
PARE_CHECK_PACKAGES+=(python3-dev python3-venv python3-jsonschema)
# for archives and signatures that other programs check
PARE_CHECK_PACKAGES+=(zstd openssl)
# for the whole program under a checker
PARE_CHECK_PACKAGES+=(valgrind libc6-dbg)
# for kernels of AVX-VNNI and AVX-512 in plain C
PARE_CHECK_PACKAGES+=(libsimde-dev)

# install_packages NAME...: installs those that are missing, after saying which; asks nothing.
install_packages() {
    local missing=() name as_root=()
    for name in "$@"; do
        if ! dpkg-query -W -f '${db:Status-Status}\n' "$name" 2> /dev/null | grep -qx installed; then
            missing+=("$name")
        fi
    done
    if [ ${#missing[@]} = 0 ]; then return; fi
    if ! command -v apt-get > /dev/null; then
        echo "missing: ${missing[*]}; install what corresponds to them on this system" >&2
        return 1
    fi
    if [ "$(id -u)" != 0 ]; then as_root=(sudo); fi
    echo "Installing ${missing[*]} ..."
    local start=$SECONDS log
    log=$(mktemp)
    if ! { "${as_root[@]}" apt-get update &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
            "${missing[@]}"; } < /dev/null > "$log" 2>&1; then
        tail -n 20 "$log" >&2
        echo "installing failed; $log has all of it" >&2
        return 1
    fi
    rm -f "$log"
    echo "Installed in $((SECONDS - start)) s."
}
