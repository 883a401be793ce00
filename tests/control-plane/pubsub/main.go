// Command lockstep-pubsub is a Pub/Sub for tests: the fake of Google's own client library, and a consumer with that library.
//
// It prints one line of JSON with its address, then an answer to each line of its standard input, and each message that any of its
// topics gets. "create projects/P/topics/T" creates a topic; "leave" cuts all connections of publishers and takes no more, until
// "return". It ends when there are no more lines.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/grpc"
)

func main() {
	if err := run(); err != nil {
		log.Fatal("lockstep-pubsub: ", err)
	}
}

func run() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	front := &front{}
	fake := pstest.NewServerWithCallback(0, func(server *grpc.Server) { front.grpc = server })
	front.rest = &fake.GServer
	front.serve(listener)

	// The consumer is not cut off with the publishers.
	if err := os.Setenv("PUBSUB_EMULATOR_HOST", fake.Addr); err != nil {
		return err
	}
	out := &printer{json: json.NewEncoder(os.Stdout)}
	out.print(map[string]string{"address": listener.Addr().String()})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		command, topic, _ := strings.Cut(lines.Text(), " ")
		switch command {
		case "create":
			err = consume(context.Background(), topic, out)
		case "leave":
			err = front.server.Close()
		case "return":
			if listener, err = net.Listen("tcp", listener.Addr().String()); err == nil {
				front.serve(listener)
			}
		default:
			err = fmt.Errorf("%q is no command", command)
		}
		if err != nil {
			return err
		}
		out.print(map[string]string{"done": lines.Text()})
	}
	return lines.Err()
}

// front is what publishers reach: gRPC, and the one REST method that they ask, as the fake knows gRPC alone.
type front struct {
	grpc   *grpc.Server
	rest   *pstest.GServer
	server *http.Server
}

func (f *front) serve(listener net.Listener) {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: &protocols, Handler: f}
	f.server = server
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal("lockstep-pubsub: ", err)
		}
	}()
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		f.grpc.ServeHTTP(w, r)
	} else {
		see(w, r, f.rest)
	}
}

// see shows a topic: GET /v1/projects/P/topics/T.
func see(w http.ResponseWriter, r *http.Request, fake *pstest.GServer) {
	name := strings.TrimPrefix(r.URL.Path, "/v1/")
	topic, err := fake.GetTopic(r.Context(), &pubsubpb.GetTopicRequest{Topic: name})
	w.Header().Set("Content-Type", "application/json")
	var answer any = map[string]string{"name": topic.GetName()}
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		answer = map[string]any{"error": map[string]any{"code": 404, "message": err.Error(), "status": "NOT_FOUND"}}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// consume creates a topic with a subscription, and prints what comes.
func consume(ctx context.Context, topic string, out *printer) error {
	project, name, found := strings.Cut(strings.TrimPrefix(topic, "projects/"), "/topics/")
	if !found {
		return fmt.Errorf("%q is no projects/P/topics/T", topic)
	}
	client, err := pubsub.NewClient(ctx, project)
	if err != nil {
		return err
	}
	if _, err := client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: topic}); err != nil {
		return err
	}
	subscription := fmt.Sprintf("projects/%s/subscriptions/%s", project, name)
	request := &pubsubpb.Subscription{Name: subscription, Topic: topic}
	if _, err := client.SubscriptionAdminClient.CreateSubscription(ctx, request); err != nil {
		return err
	}
	go func() {
		err := client.Subscriber(subscription).Receive(ctx, func(_ context.Context, message *pubsub.Message) {
			out.print(map[string]any{"topic": topic, "data": string(message.Data), "attributes": message.Attributes})
			message.Ack()
		})
		log.Fatal("lockstep-pubsub: ", err)
	}()
	return nil
}

// printer prints lines of JSON, one at a time.
type printer struct {
	mutex sync.Mutex
	json  *json.Encoder
}

func (p *printer) print(line any) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if err := p.json.Encode(line); err != nil {
		log.Fatal("lockstep-pubsub: ", err)
	}
}
