package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sort"
	"strings"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/util/proto"
)

const (
	kindExtension = "x-kubernetes-group-version-kind"
	older         = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	newer         = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
)

// Reads the OpenAPI document of version 2 as kubectl and client-go do: in protobuf, with gnostic.
func documents(ctx context.Context, config *rest.Config, client *kubernetes.Clientset) error {
	var document *openapi_v2.Document
	var models proto.Models
	err := eventually(ctx, "the OpenAPI document has widgets", func(context.Context) (bool, error) {
		var err error
		if document, err = client.Discovery().OpenAPISchema(); err != nil {
			return false, err
		}
		if models, err = proto.NewOpenAPIData(document); err != nil {
			return false, err
		}
		return byKind(models, widgetKind) != nil, nil
	})
	if err != nil {
		return err
	}
	fmt.Println("swagger:", document.GetSwagger(), document.GetInfo().GetTitle())
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "ConfigMap"},
		{Version: "v1", Kind: "Pod"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		widgetKind,
	} {
		explain(kind.Kind, byKind(models, kind))
	}
	for _, name := range []string{
		"io.k8s.api.apps.v1.DeploymentSpec", "io.k8s.api.core.v1.Container", "io.k8s.api.core.v1.ServicePort",
		"io.k8s.api.core.v1.ResourceRequirements", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
		"io.k8s.apimachinery.pkg.util.intstr.IntOrString",
	} {
		explain(name, models.LookupModel(name))
	}
	for _, path := range []string{
		"/api/v1/namespaces/{namespace}/configmaps/{name}",
		"/apis/clients.example.com/v1/widgets",
		"/apis/clients.example.com/v1/namespaces/{namespace}/widgets",
		"/apis/clients.example.com/v1/namespaces/{namespace}/widgets/{name}",
		"/apis/clients.example.com/v1/namespaces/{namespace}/widgets/{name}/status",
	} {
		operations(document, path)
	}
	if err := extracts(ctx, config, client); err != nil {
		return err
	}
	return negotiates(ctx, config)
}

// The model of a kind, as kubectl finds it.
func byKind(models proto.Models, kind schema.GroupVersionKind) proto.Schema {
	for _, name := range models.ListModels() {
		model := models.LookupModel(name)
		kinds, _ := model.GetExtensions()[kindExtension].([]any)
		if len(kinds) != 1 {
			continue
		}
		found, _ := kinds[0].(map[any]any)
		if found["group"] == kind.Group && found["version"] == kind.Version && found["kind"] == kind.Kind {
			return model
		}
	}
	return nil
}

func explain(name string, model proto.Schema) {
	kind, ok := model.(*proto.Kind)
	if !ok {
		fmt.Println("explains", name, described(model))
		return
	}
	fmt.Println("explains", name, extensions(kind))
	for _, field := range kind.Keys() {
		required := ""
		if kind.IsRequired(field) {
			required = "required"
		}
		fmt.Println("explains", name, field, described(kind.Fields[field]), required)
	}
}

func described(model proto.Schema) string {
	switch model := model.(type) {
	case proto.Reference:
		return fmt.Sprint(strings.TrimPrefix(model.Reference(), "io.k8s."), extensions(model))
	case *proto.Array:
		return fmt.Sprint("list of ", described(model.SubType), extensions(model))
	case *proto.Map:
		return fmt.Sprint("map of ", described(model.SubType), extensions(model))
	case *proto.Primitive:
		return fmt.Sprint(model.Type, "/", model.Format, extensions(model))
	case *proto.Kind:
		var fields []string
		for _, field := range model.Keys() {
			fields = append(fields, field+": "+described(model.Fields[field]))
		}
		return fmt.Sprint("{", strings.Join(fields, ", "), "}", extensions(model))
	case *proto.Arbitrary:
		return fmt.Sprint("anything", extensions(model))
	default:
		return "nothing"
	}
}

func extensions(model proto.Schema) string {
	if len(model.GetExtensions()) == 0 {
		return ""
	}
	return fmt.Sprint(" ", model.GetExtensions())
}

// Prints the operations on a path: whether one has a parameter is how kubectl knows that the server validates fields.
func operations(document *openapi_v2.Document, path string) {
	index := slices.IndexFunc(document.GetPaths().GetPath(), func(item *openapi_v2.NamedPathItem) bool { return item.GetName() == path })
	if index < 0 {
		fmt.Println("no operations on", path)
		return
	}
	item := document.GetPaths().GetPath()[index].GetValue()
	fmt.Println("on", path, parameters(document, item.GetParameters()))
	named := map[string]*openapi_v2.Operation{
		"get": item.GetGet(), "put": item.GetPut(), "post": item.GetPost(), "delete": item.GetDelete(), "patch": item.GetPatch(),
	}
	for _, method := range []string{"get", "put", "post", "delete", "patch"} {
		if operation := named[method]; operation != nil {
			kind := proto.VendorExtensionToMap(operation.GetVendorExtension())
			fmt.Println(method, operation.GetOperationId(), operation.GetTags(), kind, parameters(document, operation.GetParameters()))
		}
	}
	if types := item.GetPatch().GetConsumes(); types != nil {
		sort.Strings(types)
		fmt.Println("patches:", types)
	}
}

// Names parameters with their types. The real server shares some among operations.
func parameters(document *openapi_v2.Document, items []*openapi_v2.ParametersItem) []string {
	shared := map[string]*openapi_v2.Parameter{}
	for _, named := range document.GetParameters().GetAdditionalProperties() {
		shared["#/parameters/"+named.GetName()] = named.GetValue()
	}
	var found []string
	for _, item := range items {
		parameter := item.GetParameter()
		if reference := item.GetJsonReference(); reference != nil {
			parameter = shared[reference.GetXRef()]
		}
		switch {
		case parameter.GetBodyParameter() != nil:
			body := parameter.GetBodyParameter()
			found = append(found, fmt.Sprint(body.GetName(), " in ", body.GetIn(), ": ", body.GetSchema().GetXRef()))
		case parameter.GetNonBodyParameter().GetPathParameterSubSchema() != nil:
			place := parameter.GetNonBodyParameter().GetPathParameterSubSchema()
			found = append(found, fmt.Sprint(place.GetName(), " in ", place.GetIn(), ": ", place.GetType(), place.GetRequired(), place.GetUniqueItems()))
		default:
			query := parameter.GetNonBodyParameter().GetQueryParameterSubSchema()
			found = append(found, fmt.Sprint(query.GetName(), " in ", query.GetIn(), ": ", query.GetType(), query.GetRequired(), query.GetUniqueItems()))
		}
	}
	sort.Strings(found)
	return found
}

// Extracts what a manager has applied: client-go types every kind of the document for that.
func extracts(ctx context.Context, config *rest.Config, client *kubernetes.Clientset) error {
	extractor, err := metav1apply.NewUnstructuredExtractor(client.Discovery())
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	widget, err := objects.Resource(widgets).Namespace(goNamespace).Get(ctx, "w", metav1.GetOptions{})
	if err != nil {
		return err
	}
	extracted, err := extractor.Extract(widget, "painter")
	if err != nil {
		return err
	}
	fmt.Println("extracted:", extracted.Object)
	return nil
}

// Asks for the document in several forms, and again for one that the client has.
func negotiates(ctx context.Context, config *rest.Config) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	ask := func(accept, known string) (*http.Response, int, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/openapi/v2", nil)
		if err != nil {
			return nil, 0, err
		}
		request.Header.Set("Accept", accept)
		if known != "" {
			request.Header.Set("If-None-Match", known)
		}
		response, err := client.Do(request)
		if err != nil {
			return nil, 0, err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return response, len(body), err
	}
	for _, accept := range []string{
		"", "*/*", "application/*", "application/json", "text/plain", "application/vnd.kubernetes.protobuf", older, newer,
		"application/json, " + newer, newer + ", application/json", older + ";q=0.5, application/json", "*/*, " + newer,
	} {
		response, length, err := ask(accept, "")
		if err != nil {
			return err
		}
		varies := slices.Contains(response.Header.Values("Vary"), "Accept")
		fmt.Printf("accept %q: %s %q %t, varies: %t\n", accept, response.Status, response.Header.Get("Content-Type"), length > 0, varies)
	}
	for _, accept := range []string{"application/json", newer} {
		// The document changes whenever another test defines a kind.
		err := eventually(ctx, "the document that the client has is not sent again: "+accept, func(context.Context) (bool, error) {
			whole, _, err := ask("application/json", "")
			if err != nil {
				return false, err
			}
			kept, length, err := ask(accept, whole.Header.Get("Etag"))
			if err != nil {
				return false, err
			}
			isKept := kept.StatusCode == http.StatusNotModified && length == 0
			return isKept && kept.Header.Get("Etag") == whole.Header.Get("Etag"), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
