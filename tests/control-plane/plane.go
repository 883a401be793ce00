package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// The sockets of etcd are relative to the plane's directory, the working directory of all, as the path of a socket may
// not be long. etcd wants a port even here; it becomes part of the file's name.
const (
	etcdSocket = "etcd.sock:0"
	peerSocket = "peer.sock:0"
)

// logTail is how much of each log is shown when something went wrong.
const logTail = 4 << 10

// plane is a control plane: the servers, the directory that they run in and the one that their programs come from.
type plane struct {
	dir, assets string
	servers     []*exec.Cmd
	died        chan error    // why the first server stopped by itself
	stopped     chan struct{} // one for each server that has stopped
}

// A child's death signal is sent when the thread that started it ends: main's goroutine keeps to its thread.
func init() {
	runtime.LockOSThread()
}

// newPlane makes a directory for data, keys and logs, and goes there.
func newPlane(assets string) (*plane, error) {
	assets, err := filepath.Abs(assets)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lockstep-control-plane-")
	if err != nil {
		return nil, err
	}
	return &plane{dir: dir, assets: assets, died: make(chan error, 2), stopped: make(chan struct{}, 2)}, os.Chdir(dir)
}

// spawn starts a server that dies with this process; its output goes to NAME.log.
func (p *plane) spawn(name string, args ...string) error {
	log, err := os.Create(name + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	server := exec.Command(filepath.Join(p.assets, name), args...)
	server.Stdout, server.Stderr = log, log
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := server.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	p.servers = append(p.servers, server)
	go func() {
		p.died <- fmt.Errorf("%s stopped: %v", name, server.Wait())
		p.stopped <- struct{}{}
	}()
	return nil
}

// remove ends the servers without grace, as their data is thrown away, and deletes the directory. If something went
// wrong, the ends of the logs are shown first.
func (p *plane) remove(wrong bool) {
	for _, server := range p.servers {
		_ = server.Process.Kill()
	}
	for range p.servers {
		<-p.stopped
	}
	if wrong {
		logs, _ := filepath.Glob("*.log")
		for _, name := range logs {
			log, _ := os.ReadFile(name)
			fmt.Fprintf(os.Stderr, "--- %s\n%s\n", name, log[max(0, len(log)-logTail):])
		}
	}
	_ = os.RemoveAll(p.dir)
}

// holdPort binds a free port of loopback without listening, so that nobody else is given it until the API server,
// which is told to share it, listens there.
func holdPort() (socket, port int, err error) {
	socket, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, 0, err
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, 0, err
	}
	address, err := unix.Getsockname(socket)
	if err != nil {
		return 0, 0, err
	}
	return socket, address.(*unix.SockaddrInet4).Port, nil
}

func etcdArgs() []string {
	return []string{
		"--data-dir=etcd",
		"--listen-client-urls=unix://" + etcdSocket,
		"--advertise-client-urls=unix://" + etcdSocket,
		"--listen-peer-urls=unix://" + peerSocket,
		"--initial-advertise-peer-urls=unix://" + peerSocket,
		"--initial-cluster=default=unix://" + peerSocket,
		"--unsafe-no-fsync",
		"--log-level=warn",
	}
}

// auditPolicy has the requests of service accounts written down, so that a test can tell which of their permissions they
// use. Those of others are not: tests load the server on purpose.
const (
	auditPolicyFile = "audit-policy.yaml"
	auditPolicy     = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts"]
  - level: None
`
)

func apiserverArgs(port int) []string {
	return []string{
		"--etcd-servers=unix://" + etcdSocket,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--permit-port-sharing",
		"--tls-cert-file=serving.crt",
		"--tls-private-key-file=serving.key",
		"--token-auth-file=tokens.csv",
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=service-account.key",
		"--service-account-signing-key-file=service-account.key",
		// Pods may be created in a namespace whose `default` account nobody has made.
		"--disable-admission-plugins=ServiceAccount",
		"--service-cluster-ip-range=10.0.0.0/16",
		"--allow-privileged",
		// Tests load the server on purpose; nothing here is to be shielded from them.
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=4000",
		"--max-mutating-requests-inflight=2000",
		"--audit-policy-file=" + auditPolicyFile,
		"--audit-log-path=audit.log",
		"--endpoint-reconciler-type=none",
		"--profiling=false",
	}
}
