#!/usr/bin/env bash
# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Runs tests of what runs in pods in a virtual machine with Debian's kernel, where this
# machine's own doesn't have what they depend on, and says how many have passed:
#   hack/virtual.sh cgroup2
set -euo pipefail
cd "$(dirname "$0")/.."

ground=${1:?"usage: $0 cgroup2 [flag of go test]..."}
shift

# The directories of packages whose tests run, and which of them.
parameters=()
case $ground in
cgroup2)
  tests=(
    "./internal/proc ."
    "./cmd/entrypoint OutOfMemory|LackOfMemory|KilledTogether"
    "./cmd/withlogs/entrypoint OutOfMemory|LackOfMemory|KilledTogether|KilledRather"
  )
  ;;
*)
  echo "running a virtual machine for $ground: it can be cgroup2" >&2
  exit 2
  ;;
esac

command -v qemu-system-x86_64 >/dev/null || hack/apt-get.sh qemu-system-x86
command -v busybox >/dev/null || hack/apt-get.sh busybox-static

# The kernel is unpacked into the cache, and not installed: this machine keeps its own.
cache=${ENTRYPOINTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/entrypointer}/kernels
latest() { apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: //p'; }
package=$(latest)
if [[ -z $package ]]; then
  apt-get update -q >&2
  package=$(latest)
fi
if [[ ! -d $cache/$package ]]; then
  mkdir -p "$cache"
  unpacked=$(mktemp -d "$cache/.new-XXXXXX")
  (cd "$unpacked" && apt-get download -q "$package" >&2 && dpkg-deb -x ./*.deb . && rm ./*.deb)
  mv "$unpacked" "$cache/$package"
fi
kernel=$cache/$package

work=$(mktemp -d)
log=$(mktemp)
trap 'rm -rf "$work" "$log"' EXIT
mkdir -p "$work"/initrd/{bin,dev,modules,proc,root,sys} "$work/bin"

# What the machine runs is compiled here. The tests get the same programs as a pod, and one
# program of each package's tests.
export CGO_ENABLED=0
go build -trimpath -ldflags='-s -w' -o "$work/bin/" ./cmd/entrypoint ./cmd/copier ./cmd/entrypoint/testdata/child
mkdir "$work/withlogs"
go build -trimpath -ldflags='-s -w' -o "$work/withlogs/" ./cmd/withlogs/entrypoint
{
  echo 'failed=0'
  for test in "${tests[@]}"; do
    read -r package pattern <<<"$test"
    program=$(tr / - <<<"${package#./}").test
    go test -c -vet=off -o "$work/$program" "$package" >&2
    # One after the other, because each has a deadline.
    flags=(-test.v -test.short -test.parallel=1 -test.timeout=40m "-test.run=$pattern" "${@/#-/-test.}")
    case $package in
    ./cmd/entrypoint) flags+=(-entrypoint.bin=/mnt/work/bin) ;;
    ./cmd/withlogs/entrypoint) flags+=(-entrypoint.bin=/mnt/work/withlogs) ;;
    esac
    printf 'cd %q && ' "/mnt/checkout/$package"
    printf '%q ' "/mnt/work/$program" "${flags[@]}"
    echo '|| failed=1'
  done
  echo "exit \$failed"
} >"$work/tests"

# The machine's file system is this machine's, which it can only read, through 9P. So it has
# the same shell and tools.
cp "$(command -v busybox)" "$work/initrd/bin/"
number=10
for module in drivers/virtio/virtio{_ring,,_pci_legacy_dev,_pci_modern_dev,_pci} fs/netfs/netfs fs/fscache/fscache net/9p/9pnet{,_virtio} fs/9p/9p; do
  cp "$kernel"/lib/modules/*/kernel/"$module.ko" "$work/initrd/modules/$((number++))-${module##*/}.ko"
done
cat >"$work/initrd/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
for module in /modules/*; do insmod "$module"; done
share() { mount -t 9p -o "trans=virtio,version=9p2000.L,ro,cache=loose,msize=1048576" "$1" "$2"; }
share system /root
for name in dev proc sys; do mount --move /$name /root/$name; done
for name in tmp run mnt; do mount -t tmpfs tmpfs /root/$name; done
chmod 1777 /root/tmp
mkdir /root/mnt/checkout /root/mnt/work /root/dev/pts /root/dev/shm
share checkout /root/mnt/checkout
share work /root/mnt/work
mount -t devpts -o ptmxmode=0666 devpts /root/dev/pts
mount -t tmpfs tmpfs /root/dev/shm
mount -t securityfs securityfs /root/sys/kernel/security
mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
echo +memory >/root/sys/fs/cgroup/cgroup.subtree_control
ip link set lo up
echo "$(uname -srm), security modules $(cat /root/sys/kernel/security/lsm), memory of cgroup v2: $(grep -cw memory /root/sys/fs/cgroup/cgroup.controllers)"
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp chroot /root /bin/sh /mnt/work/tests
ended=$?
dmesg | grep 'Killed process'
echo "the tests ended with $ended"
poweroff -f
INIT
chmod 755 "$work/initrd/init"
(cd "$work/initrd" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initrd.gz"

share() { echo "local,path=$1,mount_tag=$2,security_model=none,readonly=on,multidevs=remap"; }
began=$SECONDS
# Without hardware of its own for it, qemu emulates the processor.
timeout 40m qemu-system-x86_64 -accel tcg,thread=multi -cpu max -machine q35 -smp 2 -m 2048 -nodefaults -nographic -no-reboot \
  -kernel "$kernel"/boot/vmlinuz-* -initrd "$work/initrd.gz" -append "console=ttyS0 loglevel=3 panic=-1 no_timer_check ${parameters[*]}" \
  -virtfs "$(share / system)" -virtfs "$(share "$PWD" checkout)" -virtfs "$(share "$work" work)" \
  -serial stdio </dev/null 2>&1 | sed -u 's/\r$//' | tee "$log" || true
count() { grep -c "^--- $1" "$log" || true; }
printf '%s: %d tests passed, %d skipped themselves, %d failed; in %d s\n' "$ground" "$(count PASS)" "$(count SKIP)" "$(count FAIL)" $((SECONDS - began))
# A test that skips itself shows nothing about this ground.
grep -q '^the tests ended with 0$' "$log" && [[ $(count SKIP) == 0 ]]
