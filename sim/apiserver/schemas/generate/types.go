package main

import (
	"encoding/json"
	"log"
	"reflect"
	"strings"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// typeTable collects, by OpenAPI name, what encoding/json sees of each named Go type:
// the JSON fields of a struct with their types, the underlying type of other names,
// or "custom" for a type that reads itself.
//
// A field's type ends in "?" when the tag has omitempty and in "!" when it has omitzero; the name of an embedded
// struct that holds the field stands before it with a slash, as errors name it.
type typeTable struct {
	types map[string]any
}

func goTypes() map[string]any {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistration.AddToScheme, apps.AddToScheme, authentication.AddToScheme, authorization.AddToScheme,
		autoscalingv1.AddToScheme, autoscaling.AddToScheme, batch.AddToScheme, coordination.AddToScheme,
		core.AddToScheme, discovery.AddToScheme, events.AddToScheme, networking.AddToScheme, policy.AddToScheme,
		rbac.AddToScheme, scheduling.AddToScheme, storage.AddToScheme, apiextensions.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			log.Fatal(err)
		}
	}
	table := typeTable{types: map[string]any{}}
	kinds := map[string]any{}
	for _, path := range served {
		version := groupVersion(path)
		for kind, goType := range scheme.KnownTypes(version) {
			if strings.HasPrefix(goType.PkgPath(), "k8s.io/apimachinery/") {
				continue
			}
			kinds[version.String()+"/"+kind] = table.reference(goType)
		}
	}
	return map[string]any{"kinds": kinds, "types": table.types}
}

func groupVersion(path string) schema.GroupVersion {
	parts := strings.Split(path, "/")
	if len(parts) == 2 {
		return schema.GroupVersion{Version: parts[1]}
	}
	return schema.GroupVersion{Group: parts[1], Version: parts[2]}
}

// reference spells a type, and describes the named types in it once.
func (t *typeTable) reference(goType reflect.Type) string {
	if goType.PkgPath() == "" {
		switch goType.Kind() {
		case reflect.Pointer:
			return "*" + t.reference(goType.Elem())
		case reflect.Slice:
			return "[]" + t.reference(goType.Elem())
		case reflect.Map:
			return "map[" + t.reference(goType.Key()) + "]" + t.reference(goType.Elem())
		default:
			return goType.String()
		}
	}
	name := openAPIName(goType)
	if _, known := t.types[name]; known {
		return name
	}
	t.types[name] = nil
	switch {
	case reflect.PointerTo(goType).Implements(unmarshaler):
		t.types[name] = "custom"
	case goType.Kind() == reflect.Struct:
		fields := map[string]string{}
		t.fields(goType, "", fields)
		t.types[name] = fields
	case goType.Kind() == reflect.Slice:
		t.types[name] = "[]" + t.reference(goType.Elem())
	case goType.Kind() == reflect.Map:
		t.types[name] = "map[" + t.reference(goType.Key()) + "]" + t.reference(goType.Elem())
	default:
		t.types[name] = goType.Kind().String()
	}
	return name
}

func (t *typeTable) fields(goType reflect.Type, embedded string, into map[string]string) {
	for i := range goType.NumField() {
		field := goType.Field(i)
		tag, tagged := field.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case name == "-" || !field.IsExported():
		case field.Anonymous && name == "":
			t.fields(field.Type, embedded+field.Name+"/", into)
		case !tagged || name == "":
			log.Fatalf("%s.%s has no JSON name", goType, field.Name)
		default:
			into[name] = embedded + t.reference(field.Type) + omission(options)
		}
	}
}

func omission(options string) string {
	mark := ""
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty":
			mark += "?"
		case "omitzero":
			mark += "!"
		}
	}
	return mark
}

// openAPIName turns k8s.io/api/core/v1.Pod into io.k8s.api.core.v1.Pod.
func openAPIName(goType reflect.Type) string {
	host, rest, _ := strings.Cut(goType.PkgPath(), "/")
	parts := strings.Split(host, ".")
	reversed := ""
	for i := len(parts) - 1; i >= 0; i-- {
		reversed += parts[i] + "."
	}
	return reversed + strings.ReplaceAll(rest, "/", ".") + "." + goType.Name()
}
