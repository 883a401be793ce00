package main

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Defines a kind of our own and waits until it is served.
func defineWidgets(ctx context.Context, config *rest.Config) error {
	// Definitions have no protobuf.
	config = rest.CopyConfig(config)
	config.ContentType = "application/json"
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		return err
	}
	smallest, preserve := float64(1), true
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	color := text
	color.Default = &apiextensionsv1.JSON{Raw: []byte(`"red"`)}
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.clients.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: widgets.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"size": {Type: "integer", Minimum: &smallest}, "color": color,
						}},
						"status": {Type: "object", XPreserveUnknownFields: &preserve},
					},
				}},
			}},
		},
	}
	definitions := client.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := definitions.Create(ctx, definition, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return eventually(ctx, "widgets are served", func(ctx context.Context) (bool, error) {
		found, err := definitions.Get(ctx, definition.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, condition := range found.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return served(client), nil
			}
		}
		return false, nil
	})
}

// Established comes a moment before the kind is served.
func served(client apiextensions.Interface) bool {
	resources, err := client.Discovery().ServerResourcesForGroupVersion(fmt.Sprintf("%s/%s", widgets.Group, widgets.Version))
	return err == nil && len(resources.APIResources) > 0
}
