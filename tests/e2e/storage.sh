#!/bin/bash
# Archives, signatures and differences of models through the program: storage.sh PARE DEMO
# (recipes/demo). What another program reads of an archive, what a kill leaves, who is caught.
set -euo pipefail
pare=$(realpath "$1") demo=$(realpath "$2") here=$(dirname "$(realpath "$0")")
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"

fail() {
    echo "e2e.storage: $*"
    exit 1
}

# refused CODE TEXT ARGUMENT...: pare ends with that code and says so.
refused() {
    local code=0
    "$pare" "${@:3}" > out 2>&1 || code=$?
    if [ $code != "$1" ] || ! grep -q "$2" out; then
        fail "pare ${*:3}: exit $code, expected $1 with \"$2\": $(cat out)"
    fi
}

# two versions of an artifact
for clip in none mse; do
    printf 'pare: 1\nmodel: %s/hedge\npasses:\n  - rtn: {bits: 4, group: 32, clip: %s}\n' \
        "$demo" $clip > $clip.yaml
    "$pare" compress $clip.yaml --output $clip > /dev/null 2>&1
done

# packed and unpacked: the same bytes, for any number of threads
"$pare" pack none --threads 1 > out
"$pare" pack none/ --output two.pare.zst --threads 3 > out
cmp none.pare.zst two.pare.zst
"$pare" unpack two.pare.zst > out
diff -r none two
"$pare" unpack none.pare.zst --list > out
grep -q "$(ls none | wc -l) files" out || fail "--list: $(cat out)"
"$pare" pack "$demo/hedge" --output hedge.pare.zst > out
if command -v zstd > /dev/null && command -v python3 > /dev/null; then
    zstd -tq none.pare.zst hedge.pare.zst
    python3 "$here/archive.py" hedge.pare.zst "$demo/hedge"
    python3 "$here/archive.py" none.pare.zst none
else
    echo "skipped: zstd or python3 is not installed: archives were read by pare alone"
fi

# one byte that changed, a file too short, another file
cp two.pare.zst bad.pare.zst
printf 'X' | dd of=bad.pare.zst bs=1 seek=$(($(stat -c %s bad.pare.zst) / 2)) conv=notrunc status=none
refused 4 'XXH3' unpack bad.pare.zst --check
refused 4 'XXH3' unpack bad.pare.zst
head -c 5000 two.pare.zst > short.pare.zst
refused 4 'seek table' unpack short.pare.zst
refused 4 'is no archive of pare' unpack none/config.json --output x
refused 2 'exists already' unpack two.pare.zst
refused 4 'nothere: cannot open' unpack nothere
: > nothing
refused 4 'nothing: is empty' unpack nothing
printf PARE > few
refused 4 'few: is too short to be an archive' unpack few
refused 2 'only files of that model belong' pack none --output mse/x.pare.zst
if [ -e bad ] || [ -e bad.partial ] || [ -e short ] || [ -e x ]; then fail "something half is left"; fi

# a difference is small, and needs its base
"$pare" pack mse --base none --output delta.pare.zst > out
"$pare" pack mse > out
if [ $(($(stat -c %s delta.pare.zst) * 10)) -gt $(($(stat -c %s mse.pare.zst) * 9)) ]; then
    fail "the difference is hardly smaller: $(stat -c %s delta.pare.zst mse.pare.zst)"
fi
refused 2 'with --base' unpack delta.pare.zst --output again
refused 4 'is a difference from' unpack delta.pare.zst --base mse --output again
"$pare" unpack delta.pare.zst --base none --output again > out
diff -r mse again

# killed at any time: an archive or a folder is whole or absent, and the next run ends
head -c 60000000 /dev/zero | openssl enc -aes-128-ctr -K 00112233445566778899aabbccddeeff -iv 0123456789abcdef0123456789abcdef > noise
mkdir large
mv noise large/
killed=0
for turn in 1 2 3 4 5 6 7 8; do
    rm -rf large.pare.zst
    "$pare" pack large > out 2>&1 &
    sleep 0.0$turn
    kill -9 $! 2> /dev/null && killed=$((killed + 1))
    wait $! 2> /dev/null || true
    if [ -e large.pare.zst ]; then "$pare" unpack large.pare.zst --check > out; fi
    "$pare" pack large --restart > out 2>&1 || fail "pack after a kill: $(cat out)"
    rm -rf back
    "$pare" unpack large.pare.zst --output back > out 2>&1 &
    sleep 0.0$turn
    kill -9 $! 2> /dev/null && killed=$((killed + 1))
    wait $! 2> /dev/null || true
    if [ ! -e back ]; then "$pare" unpack large.pare.zst --output back > out; fi
    cmp large/noise back/noise
done
rm -rf back # a run that dies behind its last rename leaves its lock, which the next one takes over
"$pare" unpack large.pare.zst --output back > out
cmp large/noise back/noise
if [ -e large.pare.zst.partial ] || [ -e back.partial ] || [ -e back.lock ]; then fail "left: $(ls)"; fi
if [ $killed = 0 ]; then fail "no run was killed"; fi

# who rewrites an artifact and all hashes is caught by the key alone
openssl genpkey -algorithm ed25519 -out private.pem 2> out
openssl pkey -in private.pem -pubout -out public.pem
openssl genpkey -algorithm ed25519 -out other.pem 2> out
openssl pkey -in other.pem -pubout -out other.pub
refused 4 'nobody signed' verify none --key public.pem
(cd none && "$pare" sign . --key ../private.pem) > out
"$pare" verify none --key public.pem > out
grep -q '^signed' out || fail "verify does not say who signed: $(cat out)"
openssl pkeyutl -verify -rawin -pubin -inkey public.pem -in none/SHA256SUMS \
    -sigfile none/SHA256SUMS.sig > out
"$pare" verify none > out
refused 4 'is not of this key' verify none --key other.pub
refused 4 'no public Ed25519 key' verify none --key private.pem
cp -r none forged
printf '\n' >> forged/README.md
(cd forged && for f in $(ls | grep -v SHA256SUMS | LC_ALL=C sort); do sha256sum "$f"; done > ../sums)
mv sums forged/SHA256SUMS
"$pare" verify forged > out || fail "hashes that all fit are refused without a key: $(cat out)"
refused 4 'files were rewritten' verify forged --key public.pem
"$pare" sign forged --key other.pem > out

# a folder that this user cannot write to is a mistake in what was asked, as every such output
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if [ "$(id -u)" = 0 ] && chmod 755 . && "${nobody[@]}" "$pare" --version > /dev/null 2>&1; then
    cp private.pem readable.pem && chmod 644 readable.pem
    code=0
    "${nobody[@]}" "$pare" sign none --key readable.pem > out 2>&1 || code=$?
    [ $code = 2 ] && grep -q 'cannot be written to' out || fail "sign in a closed folder: exit $code: $(cat out)"
fi
refused 4 'is not of this key' verify forged --key public.pem
# the signature travels in an archive
"$pare" pack none --output signed.pare.zst > out
"$pare" unpack signed.pare.zst > out
"$pare" verify signed --key public.pem > out
# and does not stand in the way of a new job
"$pare" compress mse.yaml --output signed --restart > out 2>&1 || fail "signed stays: $(tail -n 3 out)"
if [ -e signed/SHA256SUMS.sig ]; then fail "the signature of another artifact stays"; fi

# what differs: the recipe, and from the original as much as the manifest says
"$pare" diff none none | grep -q 'the models are the same'
"$pare" diff none mse > out
grep -q '^tensor  *codes  *weights  *difference  *error (a)  *error (b)  *stored$' out ||
    fail "diff: $(head -n 12 out)"
grep -q '^- clip: none' out && grep -q '^+ clip: mse' out || fail "diff: $(head -n 12 out)"
if command -v python3 > /dev/null; then
    "$pare" diff "$demo/hedge" none --format json > diff.json
    python3 - << 'END'
import json
d = json.load(open("diff.json"))
linears = [r for r in d["differing"] if r["difference"] == "encoding"]
assert linears and d["tensors"]["only_a"] == d["tensors"]["only_b"] == 0, d["tensors"]
for r in linears:
    want = r["weight_error"]["b"]
    assert abs(r["relative_error"] - want) <= 1e-5 * want, r
END
    python3 - << 'END'
import json, struct
def write(name, tensors):
    head, data = {}, b""
    for key, (dtype, shape, raw) in tensors.items():
        head[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(head).encode()
    open(name, "wb").write(struct.pack("<Q", len(head)) + head + data)
f32 = lambda *x: struct.pack(f"<{len(x)}f", *x)
f16 = lambda *x: struct.pack(f"<{len(x)}e", *x)
first = {"same": ("F32", [2], f32(1, 2)), "values": ("F32", [4], f32(3, 0, 4, 1)),
         "gone": ("U8", [1], b"a"), "shape": ("F32", [4], f32(1, 2, 3, 4)), "type": ("F32", [2], f32(1, 2)),
         "bytes": ("U8", [2], b"ab")}
second = {"same": first["same"], "values": ("F32", [4], f32(3, 0, 4, 2)), "new": ("U8", [1], b"a"),
          "shape": ("F32", [2, 2], f32(1, 2, 3, 4)), "type": ("F16", [2], f16(1, 2)), "bytes": ("U8", [2], b"ac")}
write("first.safetensors", first)
write("second.safetensors", second)
END
    "$pare" diff first.safetensors second.safetensors --format json > diff.json
    python3 - << 'END'
import json
d = json.load(open("diff.json"))
rows = {r["name"]: r for r in d["differing"]}
assert {k: r["difference"] for k, r in rows.items()} == {
    "values": "values", "gone": "only_a", "new": "only_b", "shape": "shape", "type": "encoding", "bytes": "values"}, rows
assert rows["values"]["weights_differing"] == 0.25 and abs(rows["values"]["relative_error"] - 1 / 26) < 1e-12
assert rows["type"]["weights_differing"] == 0 and rows["type"]["relative_error"] == 0
assert "relative_error" not in rows["bytes"] and not d["same"] and d["tensors"]["same"] == 1, d
END
fi
# a disk that is too small for what generate will write is told before the sampling, not behind it
mkdir small
if [ "$(id -u)" = 0 ] && unshare -m mount -t tmpfs -o size=32k none small 2> out; then
    for file in x.i32 x.txt; do
        code=0
        unshare -m sh -c 'mount -t tmpfs -o size=32k none small && exec "$@"' sh "$pare" generate "$demo/hedge" \
            --count 64 --tokens 255 --output small/$file > out 2>&1 || code=$?
        [ $code = 5 ] && grep -q "small/$file\" will have about" out || fail "$file on a small disk: exit $code: $(cat out)"
    done
fi

echo "e2e.storage: $killed kills"
