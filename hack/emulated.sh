#!/usr/bin/env bash
# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Runs tests of what runs in pods with programs of another architecture, which qemu emulates
# on this machine, and says how many have passed:
#   hack/emulated.sh arm64
set -euo pipefail
cd "$(dirname "$0")/.."

arch=${1:?"usage: $0 arm64|s390x [flag of go test]..."}
shift

# The head by which the kernel recognises a program of an architecture, as qemu's own
# qemu-binfmt-conf.sh has it: 16 bytes, the type, and the machine.
ident='\x00\x00\x00\x00\x00\x00\x00\x00\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff'
case $arch in
arm64) cpu=aarch64 magic="\\x7fELF\\x02\\x01\\x01$ident\\x02\\x00\\xb7\\x00" mask+='\xfe\xff\xff\xff' ;;
s390x) cpu=s390x magic="\\x7fELF\\x02\\x02\\x01$ident\\x00\\x02\\x00\\x16" mask+='\xff\xfe\xff\xff' ;;
*)
  echo "emulating $arch: the architectures are arm64 and s390x" >&2
  exit 2
  ;;
esac

# The files of cmd/entrypoint whose tests run. Those of the others take hours in an emulator,
# or haven't been tried.
files=(bare main reap signals startup stop tty)

# Tests of what qemu emulates differently from a kernel, below the cause.
skipped=(
  # clone(2) has no namespaces in an emulated process.
  TestTheWatchUsesNoInotifyInstance
  # Signals 32 to 62 of an emulated process are signals 34 to 64 of the machine. So its first
  # two, which the supervisor leaves alone as C libraries do, are 34 and 35 outside.
  TestForwardsEverySignal
  TestASecondStopSignalIsForwardedAtOnce
  # A program that an emulated program of Go starts doesn't ignore what that one ignores: one
  # that does nothing but start grep(1) shows it.
  TestForwardsSignalsThatWereIgnoredAtTheStart
  TestChildSeesWhatItWouldSeeWithoutUs/ignored_signals
  # In /proc, the program of an emulated process is the emulator. So "entrypoint status"
  # and the like find no supervisor.
  TestACommandIsStartedWhenItsStartupProbeSucceeds
  TestTheStatusNamesTheDependentsThatDelayAStop
  # The supervisor starts so slowly that all random moments are before the command's traps.
  TestNoStopSignalIsLostOrSentTwice
  # The emulator makes up what a process reads as its own /proc/PID/stat, with zeros for its
  # group and session. So the supervisor takes its group for an orphaned one.
  TestCtrlZUnderAShell/wrapped
  # The platforms in this script are amd64.
  TestStories/platforms
)

qemu=qemu-$cpu-static
command -v "$qemu" >/dev/null || hack/apt-get.sh qemu-user-static

formats=/proc/sys/fs/binfmt_misc
log=$(mktemp)
programs=$(mktemp -d)
mounted=
registered=
# shellcheck disable=SC2317 # the trap calls it
undo() {
  rm -rf "$log" "$programs"
  [[ -z $registered ]] || echo -1 >"$formats/$registered"
  [[ -z $mounted ]] || umount "$formats"
}
trap undo EXIT
if [[ ! -e $formats/register ]]; then
  mount -t binfmt_misc none "$formats"
  mounted=yes
fi
if [[ ! -e $formats/qemu-$cpu ]]; then
  # P passes argv[0] on, O and C are for programs that their user may not read, and F opens
  # the emulator now, for processes that see other files.
  echo ":qemu-$cpu:M::$magic:$mask:$(command -v "$qemu"):POCF" >"$formats/register"
  registered=qemu-$cpu
fi

# Tests that start the supervisor as a process run natively, and only the programs that pods
# get are emulated. So these tests can do what an emulated process can't, namespaces for
# instance. Some run as nobody.
export CGO_ENABLED=0
chmod 755 "$programs"
GOARCH=$arch go build -trimpath -ldflags='-s -w' -o "$programs/" ./cmd/entrypoint ./cmd/copier
go build -trimpath -ldflags='-s -w' -o "$programs/" ./cmd/entrypoint/testdata/child

mapfile -t packages < <(GOARCH=$arch go list -deps ./cmd/{,withlogs/}{entrypoint,copier} | grep "^$(go list -m)/" | grep -v /cmd/)
mapfile -t tests < <(printf 'cmd/entrypoint/%s_test.go\n' "${files[@]}" | xargs sed -nE 's/^func (Test[A-Za-z0-9]+)\(t \*testing\.T\).*/\1/p')

# anyOf prints a regular expression for tests, or parts of tests.
anyOf() {
  local IFS='|'
  echo "${*/%/$}" | sed -E 's/(^|[|])/\1^/g; s#/#$/^#g'
}
flags=(-v -short -vet=off -count 1 -timeout 40m -skip "$(anyOf "${skipped[@]}")" "$@")
began=$SECONDS
failed=0
GOARCH=$arch go test "${flags[@]}" "${packages[@]}" 2>&1 | tee "$log" || failed=1
go test -run "$(anyOf "${tests[@]}")" "${flags[@]}" ./cmd/entrypoint -entrypoint.bin="$programs" 2>&1 | tee -a "$log" || failed=1
count() { grep -c "^--- $1" "$log" || true; }
printf '%s by %s: %d tests passed, %d skipped themselves, %d or parts of them are left out by name, %d failed; in %d s\n' \
  "$arch" "$("$qemu" --version | head -n 1)" "$(count PASS)" "$(count SKIP)" "${#skipped[@]}" "$(count FAIL)" $((SECONDS - began))
exit $failed
