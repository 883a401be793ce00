package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
)

// discoveryPeriod is how often the garbage collector looks for new kinds. kube-controller-manager has 30 s fixed in
// its code, which would be the time for a test to wait after it has installed a CRD; that is why its controllers
// are wired up here.
const discoveryPeriod = time.Second

// workers is the number of workers of each controller: the defaults of kube-controller-manager for its collector.
const workers = 20

// runControllers starts those controllers of kube-controller-manager that act on any object, whatever its kind: the
// garbage collector, the namespace controller and the aggregation of ClusterRoles. They stop with the context.
func runControllers(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	// The name under which managedFields show what they write.
	config.UserAgent = "kube-controller-manager/v1"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a metadata client: %w", err)
	}
	shared := informers.NewSharedInformerFactory(client, 0)
	started := make(chan struct{})

	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	collector, err := garbagecollector.NewGarbageCollector(
		ctx, client, metadataClient, mapper, garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(shared, metadatainformer.NewSharedInformerFactory(metadataClient, 0)), started,
	)
	if err != nil {
		return fmt.Errorf("making the garbage collector: %w", err)
	}
	namespaces := namespace.NewNamespaceController(
		ctx, client, metadataClient, client.Discovery().ServerPreferredNamespacedResources,
		shared.Core().V1().Namespaces(), 5*time.Minute, corev1.FinalizerKubernetes,
	)
	roles := clusterroleaggregation.NewClusterRoleAggregation(shared.Rbac().V1().ClusterRoles(), client.RbacV1())

	shared.Start(ctx.Done())
	close(started)
	go collector.Run(ctx, workers, 30*time.Second)
	go collector.Sync(ctx, client.Discovery(), discoveryPeriod)
	go namespaces.Run(ctx, workers)
	go roles.Run(ctx, 5)
	return nil
}
