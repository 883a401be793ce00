package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
)

const (
	// startTimeout bounds the start of a server on a machine that is busy with other things.
	startTimeout = 5 * time.Minute
	pollPeriod   = 50 * time.Millisecond
	// adminToken is no secret: the server listens on loopback and holds test objects.
	adminToken = "admin"
)

// up starts a control plane in a directory of its own, prints one JSON line once it is ready, and keeps it until its
// standard input closes, it gets a signal, or one of the servers dies. Nothing is left, whichever way it ends.
func up(args []string) (err error) {
	flags := flag.NewFlagSet("lockstep-control-plane", flag.ContinueOnError)
	assets := flags.String("assets", "", "the directory that holds etcd and kube-apiserver")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *assets == "" {
		return errors.New("--assets is needed")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()

	plane, err := newPlane(*assets)
	if err != nil {
		return err
	}
	defer func() { plane.remove(err != nil && ctx.Err() == nil) }()
	config, err := plane.start(ctx)
	if err != nil {
		return err
	}
	if err := writeKubeconfig(config); err != nil {
		return err
	}
	ready, err := json.Marshal(map[string]string{"server": config.Host, "dir": plane.dir})
	if err != nil {
		return err
	}
	fmt.Println(string(ready))

	select {
	case <-ctx.Done():
		return nil
	case err := <-plane.died:
		return err
	}
}

// start brings up etcd, the API server and the controllers, in that order, and returns the administrator's access.
func (p *plane) start(ctx context.Context) (*rest.Config, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("it did not get ready in time"))
	defer cancel()
	if err := p.spawn("etcd", etcdArgs()...); err != nil {
		return nil, err
	}
	held, port, err := holdPort()
	if err != nil {
		return nil, fmt.Errorf("finding a free port: %w", err)
	}
	defer syscall.Close(held)
	authority, err := writeKeys()
	if err != nil {
		return nil, fmt.Errorf("writing keys: %w", err)
	}
	err = p.await(ctx, "etcd", func() error {
		connection, err := net.Dial("unix", etcdSocket)
		if err == nil {
			connection.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(auditPolicyFile, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	if err := p.spawn("kube-apiserver", apiserverArgs(port)...); err != nil {
		return nil, err
	}
	config := &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d", port),
		BearerToken:     adminToken,
		TLSClientConfig: rest.TLSClientConfig{CAData: authority},
		QPS:             -1,
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	if err := p.await(ctx, "kube-apiserver", func() error { return probe(client, config.Host+"/readyz") }); err != nil {
		return nil, err
	}
	log, err := os.Create("controllers.log")
	if err != nil {
		return nil, err
	}
	klog.LogToStderr(false)
	klog.SetOutput(log)
	return config, runControllers(context.WithoutCancel(ctx), config)
}

// await polls until ready returns no error; a server that dies meanwhile ends the wait.
func (p *plane) await(ctx context.Context, server string, ready func() error) error {
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case died := <-p.died:
			return died
		case <-ctx.Done():
			return fmt.Errorf("starting %s: %w (last answer: %w)", server, context.Cause(ctx), err)
		case <-time.After(pollPeriod):
		}
	}
}

func probe(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return nil
}

// writeKeys writes the serving certificate, the key that signs service account tokens and the administrator's token,
// and returns the certificate, which is its own authority.
func writeKeys() ([]byte, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"})
	if err != nil {
		return nil, err
	}
	signingKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"serving.crt":         certificate,
		"serving.key":         key,
		"service-account.key": signingKey,
		"tokens.csv":          []byte(adminToken + ",admin,admin,\"system:masters\"\n"),
	}
	for name, content := range files {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return nil, err
		}
	}
	return certificate, nil
}

func writeKubeconfig(config *rest.Config) error {
	const name = "lockstep"
	kubeconfig := api.NewConfig()
	kubeconfig.Clusters[name] = &api.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	kubeconfig.AuthInfos[name] = &api.AuthInfo{Token: config.BearerToken}
	kubeconfig.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	return clientcmd.WriteToFile(*kubeconfig, "kubeconfig")
}
