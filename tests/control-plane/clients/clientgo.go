package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
)

const goNamespace = "clients-client-go"

var widgets = schema.GroupVersionResource{Group: "clients.example.com", Version: "v1", Resource: "widgets"}

func clientGo(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: goNamespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	steps := []func(context.Context, *rest.Config, *kubernetes.Clientset) error{
		discovers, writes, applies, lists, informs, scales, custom, documents, elects, deletes,
	}
	for _, step := range steps {
		if err := step(ctx, config, client); err != nil {
			return err
		}
	}
	return nil
}

func discovers(_ context.Context, _ *rest.Config, client *kubernetes.Clientset) error {
	for _, version := range []string{"v1", "apps/v1", "batch/v1", "rbac.authorization.k8s.io/v1"} {
		resources, err := client.Discovery().ServerResourcesForGroupVersion(version)
		if err != nil {
			return err
		}
		for _, resource := range resources.APIResources {
			fmt.Println("serves", version, resource.Name, resource.Kind, resource.Namespaced, resource.Verbs, resource.ShortNames)
		}
	}
	_, err := client.Discovery().ServerResourcesForGroupVersion("nobody.example.com/v1")
	refused("resources of an unknown group", err)
	return nil
}

func writes(ctx context.Context, _ *rest.Config, client *kubernetes.Clientset) error {
	maps := client.CoreV1().ConfigMaps(goNamespace)
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "written"}, Data: map[string]string{"a": "1"}}
	first, err := maps.Create(ctx, made, metav1.CreateOptions{FieldManager: "writer"})
	if err != nil {
		return err
	}
	_, err = maps.Create(ctx, made, metav1.CreateOptions{})
	refused("created twice", err)
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "Not A Name"}}, metav1.CreateOptions{})
	refused("created with a bad name", err)
	_, err = maps.Get(ctx, "absent", metav1.GetOptions{})
	refused("read though absent", err)

	second := first.DeepCopy()
	second.Data["a"] = "2"
	if second, err = maps.Update(ctx, second, metav1.UpdateOptions{}); err != nil {
		return err
	}
	first.Data["a"] = "3"
	_, err = maps.Update(ctx, first, metav1.UpdateOptions{})
	refused("updated from an old version", err)
	same, err := maps.Update(ctx, second, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	fmt.Println("an update that changes nothing keeps the version:", same.ResourceVersion == second.ResourceVersion)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := maps.Get(ctx, "written", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Data["b"] = "x"
		_, err = maps.Update(ctx, current, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	patches := []struct {
		kind types.PatchType
		text string
	}{
		{types.MergePatchType, `{"data":{"b":null,"c":"merge"}}`},
		{types.StrategicMergePatchType, `{"metadata":{"labels":{"patched":"yes"}},"data":{"d":"strategic"}}`},
		{types.JSONPatchType, `[{"op":"replace","path":"/data/a","value":"json"}]`},
		{types.JSONPatchType, `[{"op":"test","path":"/data/a","value":"other"}]`},
		{types.JSONPatchType, `[{"op":"remove","path":"/data/absent"}]`},
		{types.MergePatchType, `{"data":{"e":7}}`},
	}
	for _, patch := range patches {
		patched, err := maps.Patch(ctx, "written", patch.kind, []byte(patch.text), metav1.PatchOptions{})
		if err != nil {
			refused("patched by "+patch.text, err)
			continue
		}
		fmt.Println("patched:", patched.Data, patched.Labels)
	}
	dry := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "dry"}}
	if _, err := maps.Create(ctx, dry, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		return err
	}
	_, err = maps.Get(ctx, "dry", metav1.GetOptions{})
	refused("read after a dry run", err)
	immutable := true
	made.Name, made.Immutable = "immutable", &immutable
	if made, err = maps.Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return err
	}
	made.Data["a"] = "changed"
	_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	refused("changed though immutable", err)
	return nil
}

func applies(ctx context.Context, _ *rest.Config, client *kubernetes.Clientset) error {
	maps := client.CoreV1().ConfigMaps(goNamespace)
	wanted := func(data map[string]string) *corev1apply.ConfigMapApplyConfiguration {
		return corev1apply.ConfigMap("applied", goNamespace).WithLabels(map[string]string{"by": "apply"}).WithData(data)
	}
	_, err := maps.Apply(ctx, wanted(map[string]string{"a": "1", "b": "1"}), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return err
	}
	_, err = maps.Apply(ctx, wanted(map[string]string{"a": "2"}), metav1.ApplyOptions{FieldManager: "two"})
	refused("applied over another's field", err)
	_, err = maps.Apply(ctx, wanted(map[string]string{"a": "2"}), metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err != nil {
		return err
	}
	applied, err := maps.Apply(ctx, wanted(map[string]string{}), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return err
	}
	fmt.Println("applied:", applied.Data, applied.Labels)
	// The server sorts entries by their second first: the order depends on when the program runs.
	managed := applied.ManagedFields
	sort.Slice(managed, func(i, j int) bool { return managed[i].Manager < managed[j].Manager })
	for _, entry := range managed {
		fmt.Println("managed:", entry.Manager, entry.Operation, entry.APIVersion, entry.FieldsV1)
	}
	extracted, err := corev1apply.ExtractConfigMap(applied, "two")
	if err != nil {
		return err
	}
	fmt.Println("extracted:", extracted.Data, extracted.Labels)
	// A whole typed object, as older programs apply it: with a creation time of null.
	whole := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"typed","creationTimestamp":null},"data":{"k":"v"}}`)
	typed, err := maps.Patch(ctx, "typed", types.ApplyPatchType, whole, metav1.PatchOptions{FieldManager: "typed"})
	if err != nil {
		refused("applied with a creation time of null", err)
		return nil
	}
	fmt.Println("applied with a creation time of null:", typed.Data, !typed.CreationTimestamp.IsZero())
	return nil
}

func lists(ctx context.Context, _ *rest.Config, client *kubernetes.Clientset) error {
	secrets := client.CoreV1().Secrets(goNamespace)
	for number := range 25 {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s-%02d", number), Labels: map[string]string{"third": fmt.Sprint(number % 3)}},
			StringData: map[string]string{"number": fmt.Sprint(number)},
		}
		if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	options := []metav1.ListOptions{
		{LabelSelector: "third=1"}, {LabelSelector: "third notin (0,1)"}, {LabelSelector: "!third"},
		{FieldSelector: "metadata.name=s-07"}, {FieldSelector: "type=Opaque", LabelSelector: "third"},
		{FieldSelector: "data.number=1"}, {LabelSelector: "=x="}, {ResourceVersion: "0", LabelSelector: "third=2"},
	}
	for _, option := range options {
		list, err := secrets.List(ctx, option)
		if err != nil {
			refused(fmt.Sprint("list ", option.LabelSelector, option.FieldSelector), err)
			continue
		}
		fmt.Println("list", option.LabelSelector, option.FieldSelector, names(list))
	}
	pages, seen := 0, 0
	paged := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		pages++
		return secrets.List(ctx, options)
	})
	paged.PageSize = 10
	err := paged.EachListItem(ctx, metav1.ListOptions{LabelSelector: "third"}, func(runtime.Object) error {
		seen++
		return nil
	})
	fmt.Println("pages", pages, "items", seen)
	return err
}

func names(list *corev1.SecretList) []string {
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names
}

func informs(ctx context.Context, _ *rest.Config, client *kubernetes.Clientset) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := make(chan string, 100)
	tell := func(what string, object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		found := object.(*corev1.ConfigMap)
		seen <- fmt.Sprint(what, " ", found.Name, " ", found.Data)
	}
	only := informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "informed" })
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(goNamespace), only)
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { tell("added", object) },
		UpdateFunc: func(_, object any) { tell("updated", object) },
		DeleteFunc: func(object any) { tell("deleted", object) },
	})
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(goNamespace)
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "informed", Labels: map[string]string{"informed": ""}}}
	if one, err = maps.Create(ctx, one, metav1.CreateOptions{}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	next := func() error {
		select {
		case line := <-seen:
			fmt.Println("informer:", line)
			return nil
		case <-time.After(patience):
			return fmt.Errorf("the informer says nothing")
		}
	}
	if err := next(); err != nil {
		return err
	}
	one.Data = map[string]string{"a": "1"}
	if one, err = maps.Update(ctx, one, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := next(); err != nil {
		return err
	}
	// It leaves the selection, which is a deletion to the informer, and comes back.
	for _, labels := range []map[string]string{nil, {"informed": ""}} {
		one.Labels = labels
		if one, err = maps.Update(ctx, one, metav1.UpdateOptions{}); err != nil {
			return err
		}
		if err := next(); err != nil {
			return err
		}
	}
	if err := maps.Delete(ctx, "informed", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return next()
}

func scales(ctx context.Context, _ *rest.Config, client *kubernetes.Clientset) error {
	labels := map[string]string{"app": "scaled"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "scaled"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/i:1"}}},
			},
		},
	}
	deployments := client.AppsV1().Deployments(goNamespace)
	made, err := deployments.Create(ctx, deployment, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	fmt.Println("deployment:", *made.Spec.Replicas, made.Spec.Strategy.Type, made.Spec.Template.Spec.Containers[0].ImagePullPolicy, made.Generation)
	scale, err := deployments.GetScale(ctx, "scaled", metav1.GetOptions{})
	if err != nil {
		return err
	}
	scale.Spec.Replicas = 4
	if scale, err = deployments.UpdateScale(ctx, "scaled", scale, metav1.UpdateOptions{}); err != nil {
		return err
	}
	fmt.Println("scaled:", scale.Spec, scale.Status.Selector)
	_, err = deployments.UpdateScale(ctx, "absent", &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "absent", Namespace: goNamespace}}, metav1.UpdateOptions{})
	refused("scaled though absent", err)
	made.Spec.Selector.MatchLabels = map[string]string{"app": "other"}
	made.ResourceVersion = ""
	_, err = deployments.Update(ctx, made, metav1.UpdateOptions{})
	refused("selector changed", err)
	return nil
}

func custom(ctx context.Context, config *rest.Config, _ *kubernetes.Clientset) error {
	if err := defineWidgets(ctx, config); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	objects := client.Resource(widgets).Namespace(goNamespace)
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "clients.example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"},
		"spec": map[string]any{"size": int64(3), "unknown": "pruned"},
	}}
	made, err := objects.Create(ctx, widget, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	fmt.Println("widget:", made.Object["spec"], made.GetGeneration())
	made.Object["status"] = map[string]any{"ready": true}
	made.Object["spec"].(map[string]any)["size"] = int64(9)
	if made, err = objects.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	fmt.Println("widget:", made.Object["spec"], made.Object["status"], made.GetGeneration())
	bad := made.DeepCopy()
	bad.Object["spec"] = map[string]any{"size": int64(-1)}
	_, err = objects.Update(ctx, bad, metav1.UpdateOptions{})
	refused("size of -1", err)
	applied, err := objects.Apply(ctx, "w", &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "clients.example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"},
		"spec": map[string]any{"color": "blue"},
	}}, metav1.ApplyOptions{FieldManager: "painter", Force: true})
	if err != nil {
		return err
	}
	fmt.Println("widget:", applied.Object["spec"], applied.GetGeneration())
	partial, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	listed, err := partial.Resource(widgets).Namespace(goNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, item := range listed.Items {
		fmt.Println("metadata only:", item.Name, item.Generation)
	}
	return nil
}

// Two candidates: the second leads when the first lets go.
func elects(ctx context.Context, _ *rest.Config, client *kubernetes.Clientset) error {
	candidate := func(ctx context.Context, name string, leads chan<- string) {
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: "leader", Namespace: goNamespace},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		}
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 200 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { leads <- name }, OnStoppedLeading: func() {}},
		})
	}
	leads := make(chan string, 2)
	first, letGo := context.WithCancel(ctx)
	defer letGo()
	second, end := context.WithCancel(ctx)
	defer end()
	go candidate(first, "one", leads)
	fmt.Println("leads:", <-leads)
	go candidate(second, "two", leads)
	letGo()
	fmt.Println("leads:", <-leads)
	return nil
}

func deletes(ctx context.Context, _ *rest.Config, client *kubernetes.Clientset) error {
	maps := client.CoreV1().ConfigMaps(goNamespace)
	owner, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	blocks := true
	reference := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID, BlockOwnerDeletion: &blocks}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "owned", OwnerReferences: []metav1.OwnerReference{reference}, Finalizers: []string{"clients.example.com/holds"},
	}}
	if _, err = maps.Create(ctx, owned, metav1.CreateOptions{}); err != nil {
		return err
	}
	other := types.UID("00000000-0000-0000-0000-000000000000")
	err = maps.Delete(ctx, "owner", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	refused("deleted as another object", err)
	foreground := metav1.DeletePropagationForeground
	if err := maps.Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		return err
	}
	err = eventually(ctx, "what is owned is deleted first", func(ctx context.Context) (bool, error) {
		owned, err := maps.Get(ctx, "owned", metav1.GetOptions{})
		return err == nil && owned.DeletionTimestamp != nil, err
	})
	if err != nil {
		return err
	}
	owner, err = maps.Get(ctx, "owner", metav1.GetOptions{})
	if err != nil {
		return err
	}
	fmt.Println("the owner waits:", owner.Finalizers)
	free := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := maps.Patch(ctx, "owned", types.MergePatchType, free, metav1.PatchOptions{}); err != nil {
		return err
	}
	gone := func(name string) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			_, err := maps.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			return false, err
		}
	}
	if err := eventually(ctx, "the owner is gone", gone("owner")); err != nil {
		return err
	}
	secrets := client.CoreV1().Secrets(goNamespace)
	if err := secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "third in (0,1)"}); err != nil {
		return err
	}
	rest, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: "third"})
	if err != nil {
		return err
	}
	left := names(rest)
	sort.Strings(left)
	fmt.Println("left:", strings.Join(left, " "))
	if err := client.CoreV1().Namespaces().Delete(ctx, goNamespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return eventually(ctx, "the namespace is gone", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Namespaces().Get(ctx, goNamespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}
