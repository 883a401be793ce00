// Command generate writes the data that the API server model knows the built-in kinds by.
//
// It reads OpenAPI v3 and discovery documents, either from a running kube-apiserver (`kubectl proxy`) or from the
// `api` folder of the Go module k8s.io/kubernetes, and the Go types from the modules that this one requires:
//
//	go run . -from http://127.0.0.1:8001 -to ..
//	go run . -from "$(go mod download -json k8s.io/kubernetes@v1.36.3 | jq -r .Dir)/api" -to ..
//
// It writes discovery.json (API resources by group version), openapi.json (schemas and paths without descriptions,
// repeated parts replaced by references into one table), types.json (what encoding/json sees of the Go types) and,
// from a server only, columns.json (the columns of tables).
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// served lists the group versions that the model serves, in the order of the real server's discovery.
var served = []string{
	"api/v1",
	"apis/events.k8s.io/v1",
	"apis/authentication.k8s.io/v1",
	"apis/authorization.k8s.io/v1",
	"apis/autoscaling/v2",
	"apis/autoscaling/v1",
	"apis/batch/v1",
	"apis/networking.k8s.io/v1",
	"apis/policy/v1",
	"apis/rbac.authorization.k8s.io/v1",
	"apis/storage.k8s.io/v1",
	"apis/admissionregistration.k8s.io/v1",
	"apis/apiextensions.k8s.io/v1",
	"apis/scheduling.k8s.io/v1",
	"apis/coordination.k8s.io/v1",
	"apis/discovery.k8s.io/v1",
	"apis/apps/v1",
}

func main() {
	from := flag.String("from", "", "base URL of a kube-apiserver, or the api folder of k8s.io/kubernetes")
	to := flag.String("to", "..", "folder to write to")
	flag.Parse()
	log.SetFlags(0)

	discovery := map[string]any{}
	documents := map[string]map[string]any{}
	for _, path := range served {
		discovery[path] = fetch(*from, "discovery", path)["resources"]
		document := fetch(*from, "openapi", path)
		stripDescriptions(document)
		documents[path] = document
	}
	write(*to, "discovery.json", discovery)
	write(*to, "openapi.json", pack(documents))
	write(*to, "types.json", goTypes())
	if strings.HasPrefix(*from, "http") {
		write(*to, "columns.json", columns(*from, discovery))
	}
}

// columns asks for an empty table of every resource that can be listed; only a server knows these.
func columns(from string, discovery map[string]any) map[string]any {
	tables := map[string]any{}
	for _, path := range served {
		for _, entry := range discovery[path].([]any) {
			resource := entry.(map[string]any)
			name := resource["name"].(string)
			verbs := string(encode(resource["verbs"]))
			if !strings.Contains(verbs, `"list"`) {
				continue
			}
			request, err := http.NewRequest(http.MethodGet, from+"/"+path+"/"+name+"?limit=1", nil)
			if err != nil {
				log.Fatal(err)
			}
			request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
			table := decode(send(request), name)
			rows := []any{}
			for _, entry := range table["columnDefinitions"].([]any) {
				column := entry.(map[string]any)
				rows = append(rows, []any{
					column["name"], column["type"], column["format"], column["description"], column["priority"],
				})
			}
			tables[path+"/"+name] = rows
		}
	}
	return tables
}

// send carries out a request; a token, if the server wants one, stands in the environment variable TOKEN.
func send(request *http.Request) []byte {
	if token := os.Getenv("TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	return body
}

func decode(body []byte, what string) map[string]any {
	var document map[string]any
	if err := json.Unmarshal(body, &document); err != nil {
		log.Fatalf("%s: %v", what, err)
	}
	return document
}

// fetch reads one document from a server or from the checked-in copies of the Go module.
func fetch(from, what, path string) map[string]any {
	if strings.HasPrefix(from, "http") {
		url := from + "/" + path
		if what == "openapi" {
			url = from + "/openapi/v3/" + path
		}
		request, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			log.Fatal(err)
		}
		return decode(send(request), path)
	}
	flat := strings.ReplaceAll(path, "/", "__")
	file := filepath.Join(from, "discovery", flat+".json")
	if what == "openapi" {
		file = filepath.Join(from, "openapi-spec", "v3", flat+"_openapi.json")
	}
	body, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	return decode(body, path)
}

// stripDescriptions removes every description except fields that are called so.
func stripDescriptions(value any) {
	switch value := value.(type) {
	case map[string]any:
		if _, isText := value["description"].(string); isText {
			delete(value, "description")
		}
		for _, child := range value {
			stripDescriptions(child)
		}
	case []any:
		for _, child := range value {
			stripDescriptions(child)
		}
	}
}

// pack merges the schemas of all documents, keeps those that differ in their document's "own", and replaces parts of the paths that occur again by {"$": index}.
func pack(documents map[string]map[string]any) map[string]any {
	schemas := map[string]any{}
	packed := map[string]any{}
	table := sharing{index: map[string]int{}, count: map[string]int{}}
	for _, path := range served {
		table.tally(documents[path]["paths"])
	}
	for _, path := range served {
		document := documents[path]
		components := document["components"].(map[string]any)
		names := []string{}
		own := map[string]any{}
		for name, schema := range components["schemas"].(map[string]any) {
			if known, ok := schemas[name]; ok && !bytes.Equal(encode(known), encode(schema)) {
				own[name] = schema
				continue
			}
			schemas[name] = schema
			names = append(names, name)
		}
		sort.Strings(names)
		packed[path] = map[string]any{
			"info":    document["info"],
			"openapi": document["openapi"],
			"schemas": names,
			"own":     own,
			"paths":   table.share(document["paths"]),
		}
	}
	return map[string]any{"schemas": schemas, "documents": packed, "shared": table.parts}
}

// sharing finds equal parts of JSON documents.
type sharing struct {
	index map[string]int
	count map[string]int
	parts []any
}

func (s *sharing) tally(value any) {
	switch value := value.(type) {
	case map[string]any:
		key := string(encode(value))
		if s.count[key]++; s.count[key] > 1 {
			return
		}
		for _, child := range value {
			s.tally(child)
		}
	case []any:
		for _, child := range value {
			s.tally(child)
		}
	}
}

func (s *sharing) share(value any) any {
	switch value := value.(type) {
	case map[string]any:
		key := string(encode(value))
		repeated := s.count[key] > 1 && len(key) > 24
		if index, known := s.index[key]; repeated && known {
			return map[string]any{"$": index}
		}
		shared := map[string]any{}
		for _, name := range sortedKeys(value) {
			shared[name] = s.share(value[name])
		}
		if !repeated {
			return shared
		}
		s.index[key] = len(s.parts)
		s.parts = append(s.parts, shared)
		return map[string]any{"$": s.index[key]}
	case []any:
		shared := make([]any, len(value))
		for i, child := range value {
			shared[i] = s.share(child)
		}
		return shared
	}
	return value
}

func sortedKeys(value map[string]any) []string {
	keys := []string{}
	for key := range value {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

func encode(value any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		log.Fatal(err)
	}
	return buffer.Bytes()
}

func write(folder, name string, value any) {
	body := encode(value)
	if err := os.WriteFile(filepath.Join(folder, name), body, 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d bytes\n", name, len(body))
}
