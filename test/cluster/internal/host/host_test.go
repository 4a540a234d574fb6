// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func TestMountsBelow(t *testing.T) {
	const mountinfo = `1 0 254:0 / / rw - ext4 /dev/vda rw
20 1 0:20 / /state/run rw - tmpfs none rw
21 20 0:21 / /state/run/a\040b rw shared:7 - overlay none rw
22 1 0:22 / /state-of-another rw - tmpfs none rw
23 1 0:23 / /state rw - tmpfs none rw
`
	got, err := mountsBelow(strings.NewReader(mountinfo), "/state")
	if want := []string{"/state/run", "/state/run/a b"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("mountsBelow = %q, %v; want %q", got, err, want)
	}
}

func TestRemovalTouchesOnlyOurRules(t *testing.T) {
	const saved = `*filter
:INPUT ACCEPT [1:2]
:DOCKER - [0:0]
-A INPUT -j DOCKER
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:CNI-1 - [0:0]
:DOCKER - [0:0]
-A PREROUTING -m comment --comment "kubernetes -j DOCKER" -j KUBE-SERVICES
-A PREROUTING -j DOCKER
-A KUBE-SERVICES -j CNI-1
COMMIT
`
	const want = `*nat
:KUBE-SERVICES - [0:0]
:CNI-1 - [0:0]
-D PREROUTING -m comment --comment "kubernetes -j DOCKER" -j KUBE-SERVICES
-X KUBE-SERVICES
-X CNI-1
COMMIT
`
	if got := removal(saved); got != want {
		t.Errorf("removal = %s\nwant %s", got, want)
	}
	if got := removal("*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n"); got != "" {
		t.Errorf("removal of nothing = %q", got)
	}
}

func TestParseNameservers(t *testing.T) {
	got := parseNameservers("# comment\nsearch example.org\nnameserver 127.0.0.53\nnameserver 192.0.2.1\nnameserver ::1\nnameserver\n")
	if want := []string{"192.0.2.1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("parseNameservers = %q, want %q", got, want)
	}
}

func TestParseCapabilities(t *testing.T) {
	got, err := parseCapabilities("Name:\tsh\nCapEff:\t000001fffeffffff\n")
	if err != nil || got != 0x1fffeffffff {
		t.Errorf("parseCapabilities = %x, %v", got, err)
	}
	if got&(1<<CapSysResource) != 0 {
		t.Error("CAP_SYS_RESOURCE is not in this set")
	}
	if _, err := parseCapabilities("Name:\tsh\n"); err == nil {
		t.Error("parseCapabilities of nothing: no error")
	}
}

func TestListeners(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100FA0A:1388 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0
   1: 0100FA0A:1388 0100FA0A:9999 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0 100 0 0 10 0
`
	if got, want := listeners(table, "5000"), []string{"111"}; !reflect.DeepEqual(got, want) {
		t.Errorf("listeners = %q, want %q", got, want)
	}
}

func TestCheckPortNamesTheHolder(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	err = CheckPort(listener.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("CheckPort of a port that this process holds: %v", err)
	}
}

func TestInCgroup(t *testing.T) {
	root := t.TempDir()
	for path, pids := range map[string]string{
		"cpu/entrypointer/cgroup.procs":               "",
		"cpu/entrypointer/kubepods/pod1/cgroup.procs": "11\n12\n",
		"memory/entrypointer/kubepods/cgroup.procs":   "12\n13\n",
		"cpu/other/cgroup.procs":                      "99\n",
	} {
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(pids), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := inCgroup(root), []int{11, 12, 13}; !reflect.DeepEqual(got, want) {
		t.Errorf("inCgroup = %d, want %d", got, want)
	}
}

func TestShims(t *testing.T) {
	proc := t.TempDir()
	for pid, cmdline := range map[string]string{
		"21": "shim\x00-namespace\x00k8s.io\x00-address\x00/ours.sock\x00",
		"22": "shim\x00-address\x00/theirs.sock\x00",
		"23": "grep\x00/ours.sock\x00",
	} {
		if err := os.MkdirAll(filepath.Join(proc, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "cmdline"), []byte(cmdline), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := shims(proc, "/ours.sock"), []int{21}; !reflect.DeepEqual(got, want) {
		t.Errorf("shims = %d, want %d", got, want)
	}
}

func TestLeftoverFilesAreOurs(t *testing.T) {
	dir := t.TempDir()
	bundle := filepath.Join(dir, "bundles", "container")
	if err := os.MkdirAll(bundle, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "bootstrap.json"), []byte(`{"version":3,"address":"unix:///run/containerd/s/1"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := shimSockets(filepath.Join(dir, "bundles")), []string{"/run/containerd/s/1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("shimSockets = %q, want %q", got, want)
	}
	for name, target := range map[string]string{"ours": "/state/data/log", "theirs": "/state-of-another/log"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := linksInto(dir, "/state"), []string{filepath.Join(dir, "ours")}; !reflect.DeepEqual(got, want) {
		t.Errorf("linksInto = %q, want %q", got, want)
	}
}

func TestAvailableMemoryIsInBytes(t *testing.T) {
	const meminfo = "MemTotal:       24689372 kB\nMemFree:        20000000 kB\nMemAvailable:   21000000 kB\n"
	if got := parseAvailable(meminfo); got != 21000000<<10 {
		t.Errorf("available: got %d", got)
	}
	if got := parseAvailable("MemTotal: 1 kB\n"); got != 0 {
		t.Errorf("available: got %d where the kernel doesn't tell", got)
	}
}

func TestTooLittleSpaceSaysWhereAndWhatToDo(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "not", "there")
	if err := CheckSpace(map[string]int64{dir: 1, missing: 1}); err != nil {
		t.Errorf("two bytes: %v", err)
	}
	const terabyte, exabyte = 1 << 40, 1 << 60
	err := CheckSpace(map[string]int64{dir: exabyte, missing: 1})
	if err == nil {
		t.Fatal("an exabyte is there")
	}
	for _, want := range []string{dir, missing, "GB left", "GOMODCACHE"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("CheckSpace: got %v, want %q in it", err, want)
		}
	}
	full := filepath.Join(dir, "full")
	if err := errors.Join(os.WriteFile(full, nil, 0o644), os.Truncate(full, 8*terabyte)); err != nil {
		t.Fatal(err)
	}
	if err := CheckSpace(map[string]int64{dir: 8 * terabyte}); err != nil {
		t.Errorf("what is there already doesn't count: %v", err)
	}
}

func TestALinkIsReplaced(t *testing.T) {
	at := filepath.Join(t.TempDir(), "link")
	for _, target := range []string{"a", "b", "b"} {
		if err := Link(target, at); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(at); err != nil || got != target {
			t.Errorf("link: got %q, %v, want %q", got, err, target)
		}
	}
}
