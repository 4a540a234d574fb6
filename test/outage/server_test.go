//go:build outage

// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/test/loopback"
)

// An apiServer is a kube-apiserver with an etcd of its own, on ports of loopback.
type apiServer struct {
	*kubernetes.Clientset
	config *rest.Config
	pid    int
}

// program returns the path of a program that "make up" has built.
func program(t testing.TB, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	path := filepath.Join(cache, "entrypointer", "bin", name)
	require.FileExists(t, path, "make up builds it")
	return path
}

func startAPIServer(t testing.TB) *apiServer {
	t.Helper()
	dir := t.TempDir()
	client, peer, secure := loopback.FreeAddressFor(t), loopback.FreeAddressFor(t), loopback.FreeAddressFor(t)
	run(t, dir, "etcd", program(t, "etcd"), "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://"+client, "--advertise-client-urls=http://"+client,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer, "--initial-cluster=default=http://"+peer)

	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	keyFile, tokens := filepath.Join(dir, "accounts.key"), filepath.Join(dir, "tokens.csv")
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600))
	token := rand.Text()
	require.NoError(t, os.WriteFile(tokens, []byte(token+",tester,tester,system:masters\n"), 0o600))
	host, port, err := net.SplitHostPort(secure)
	require.NoError(t, err)
	pid := run(t, dir, "kube-apiserver", program(t, "kube-apiserver"), "--etcd-servers=http://"+client, "--allow-privileged", "--bind-address="+host, "--secure-port="+port,
		"--cert-dir="+filepath.Join(dir, "certificates"), "--token-auth-file="+tokens, "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+keyFile, "--service-account-signing-key-file="+keyFile,
		"--service-cluster-ip-range=10.250.0.0/24", "--advertise-address="+host, "--endpoint-reconciler-type=none")

	config := &rest.Config{Host: "https://" + secure, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1, Timeout: 30 * time.Second}
	s := &apiServer{kubernetes.NewForConfigOrDie(config), config, pid}
	eventually(t, "the API server is ready", func(ctx context.Context) error {
		if err := s.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return err
		}
		_, err := s.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	version, err := s.Discovery().ServerVersion()
	require.NoError(t, err)
	parsed, err := utilversion.Parse(version.GitVersion)
	require.NoError(t, err)
	require.True(t, parsed.AtLeast(utilversion.MustParse("1.36.0")), "%s has no MutatingAdmissionPolicy: make down, and make up with KUBERNETES=1.36", version.GitVersion)
	return s
}

// run starts a program that ends with the test, and returns its process ID.
func run(t testing.TB, dir, name string, argv ...string) int {
	t.Helper()
	output, err := os.Create(filepath.Join(dir, name+".log"))
	require.NoError(t, err)
	command := exec.Command(argv[0], argv[1:]...)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if text, err := os.ReadFile(output.Name()); err == nil && t.Failed() {
			t.Logf("%s:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	return command.Process.Pid
}

func eventually(t testing.TB, what string, try func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		err := try(ctx)
		if err == nil || ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	require.NoError(t, err, "%s: %v", what, last)
}

// namespace creates one with the service account that its pods have.
func (s *apiServer) namespace(t testing.TB, name string, labels, annotations map[string]string, accounts ...string) {
	t.Helper()
	_, err := s.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}}, metav1.CreateOptions{})
	require.NoError(t, err)
	for _, account := range accounts {
		_, err := s.CoreV1().ServiceAccounts(name).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// cpu returns the processor time that a process has used, in clock ticks of 10 ms.
func cpu(t testing.TB, pid int) (ticks int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	for _, at := range []int{11, 12} {
		var n int
		_, err := fmt.Sscan(fields[at], &n)
		require.NoError(t, err)
		ticks += n
	}
	return ticks
}
