package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	runtimeNamespace = "clients-controller-runtime"
	finalizer        = "clients.example.com/cleanup"
	colorField       = "spec.color"
)

var widgetKind = schema.GroupVersionKind{Group: widgets.Group, Version: widgets.Version, Kind: "Widget"}

// Keeps a ConfigMap for each widget, and says so in the widget's status.
type reconciler struct{ client.Client }

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	widget := emptyWidget()
	if err := r.Get(ctx, request.NamespacedName, widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if widget.GetDeletionTimestamp() != nil {
		controllerutil.RemoveFinalizer(widget, finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, widget))
	}
	if controllerutil.AddFinalizer(widget, finalizer) {
		if err := r.Update(ctx, widget); err != nil {
			return ctrl.Result{}, err
		}
	}
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: widget.GetName(), Namespace: widget.GetNamespace()}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, made, func() error {
		color, _, _ := unstructured.NestedString(widget.Object, "spec", "color")
		made.Data = map[string]string{"color": color}
		return controllerutil.SetControllerReference(widget, made, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	before := widget.DeepCopy()
	status := map[string]any{"observedGeneration": widget.GetGeneration(), "color": made.Data["color"]}
	if err := unstructured.SetNestedMap(widget.Object, status, "status"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.Status().Patch(ctx, widget, client.MergeFrom(before))
}

func emptyWidget() *unstructured.Unstructured {
	widget := &unstructured.Unstructured{}
	widget.SetGroupVersionKind(widgetKind)
	return widget
}

func controllerRuntime(ctx context.Context, config *rest.Config) error {
	ctrl.SetLogger(klog.Background())
	if err := defineWidgets(ctx, config); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{runtimeNamespace: {}}},
		Client:  client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Metrics: server.Options{BindAddress: "0"}, LeaderElection: true, LeaderElectionID: "clients",
		LeaderElectionNamespace: runtimeNamespace, LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	direct, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: runtimeNamespace}}
	if err := direct.Create(ctx, namespace); err != nil {
		return err
	}
	color := func(object client.Object) []string {
		color, _, _ := unstructured.NestedString(object.(*unstructured.Unstructured).Object, "spec", "color")
		return []string{color}
	}
	if err := manager.GetFieldIndexer().IndexField(ctx, emptyWidget(), colorField, color); err != nil {
		return err
	}
	controller := ctrl.NewControllerManagedBy(manager).For(emptyWidget()).Owns(&corev1.ConfigMap{})
	if err := controller.Complete(&reconciler{manager.GetClient()}); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()
	<-manager.Elected()
	fmt.Println("elected")
	if err := story(ctx, manager.GetClient(), direct); err != nil {
		return err
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	fmt.Println("stopped")
	return direct.Delete(ctx, namespace)
}

// What happens to a widget, and what comes of it. The cached client reads, the direct one writes.
func story(ctx context.Context, cached, direct client.Client) error {
	widget := emptyWidget()
	widget.SetName("w")
	widget.SetNamespace(runtimeNamespace)
	widget.Object["spec"] = map[string]any{"size": int64(1)}
	if err := direct.Create(ctx, widget); err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(widget)
	// Another object than the one that was there before, or another version of it: the cache may be behind.
	made := func(wanted string, before *corev1.ConfigMap) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			found := &corev1.ConfigMap{}
			if err := cached.Get(ctx, key, found); err != nil {
				return false, client.IgnoreNotFound(err)
			}
			isNew := found.ResourceVersion != before.ResourceVersion
			return isNew && found.Data["color"] == wanted && metav1.IsControlledBy(found, widget), nil
		}
	}
	object := &corev1.ConfigMap{}
	said := func(wanted string) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			found := emptyWidget()
			if err := cached.Get(ctx, key, found); err != nil {
				return false, client.IgnoreNotFound(err)
			}
			color, _, _ := unstructured.NestedString(found.Object, "status", "color")
			seen, _, _ := unstructured.NestedInt64(found.Object, "status", "observedGeneration")
			return color == wanted && seen == found.GetGeneration(), nil
		}
	}
	if err := eventually(ctx, "a ConfigMap is made, with the default colour", made("red", object)); err != nil {
		return err
	}
	if err := eventually(ctx, "the status says so", said("red")); err != nil {
		return err
	}
	if err := direct.Get(ctx, key, object); err != nil {
		return err
	}
	blue := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"color":"blue"}}`))
	if err := direct.Patch(ctx, widget, blue); err != nil {
		return err
	}
	if err := eventually(ctx, "a change is followed", made("blue", object)); err != nil {
		return err
	}
	if err := eventually(ctx, "the status follows", said("blue")); err != nil {
		return err
	}
	found := &unstructured.UnstructuredList{}
	found.SetGroupVersionKind(widgetKind)
	if err := cached.List(ctx, found, client.MatchingFields{colorField: "blue"}); err != nil {
		return err
	}
	fmt.Println("by index:", len(found.Items), meta.LenList(found))
	if err := direct.Get(ctx, key, object); err != nil {
		return err
	}
	if err := direct.Delete(ctx, object); err != nil {
		return err
	}
	if err := eventually(ctx, "what is deleted is made again", made("blue", object)); err != nil {
		return err
	}
	drift := client.RawPatch("application/json-patch+json", []byte(`[{"op":"replace","path":"/data/color","value":"grey"}]`))
	if err := direct.Get(ctx, key, object); err != nil {
		return err
	}
	if err := direct.Patch(ctx, object, drift); err != nil {
		return err
	}
	if err := eventually(ctx, "drift is put right", made("blue", object)); err != nil {
		return err
	}
	if err := direct.Delete(ctx, widget); err != nil {
		return err
	}
	gone := func(object client.Object) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			err := direct.Get(ctx, key, object)
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			return false, err
		}
	}
	if err := eventually(ctx, "the widget is gone once its finalizer is", gone(emptyWidget())); err != nil {
		return err
	}
	return eventually(ctx, "the garbage collector has taken the ConfigMap", gone(&corev1.ConfigMap{}))
}
