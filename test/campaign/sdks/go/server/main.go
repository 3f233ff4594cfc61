// The server of the SDK campaign on the Go SDK, on the port of PORT.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type none struct{}

type echoArguments struct {
	Text string `json:"text"`
}

type addArguments struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

type sum struct {
	Sum float64 `json:"sum"`
}

type progressArguments struct {
	Steps int `json:"steps"`
}

var canceled atomic.Int64

func text(value string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: value}}}
}

func build() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "go", Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions:       "A server for tests.",
		PageSize:           10,
		CompletionHandler:  complete,
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	addTools(server)
	addOthers(server)
	return server
}

func addTools(server *mcp.Server) {
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Returns its text"},
		func(_ context.Context, _ *mcp.CallToolRequest, in echoArguments) (*mcp.CallToolResult, any, error) {
			return text(in.Text), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "add", Description: "Adds two numbers"},
		func(_ context.Context, _ *mcp.CallToolRequest, in addArguments) (*mcp.CallToolResult, sum, error) {
			return nil, sum{in.A + in.B}, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "fail", Description: "Fails"},
		func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
			return nil, nil, errors.New("the tool failed")
		})
	mcp.AddTool(server, &mcp.Tool{Name: "progress", Description: "Reports progress"},
		func(ctx context.Context, req *mcp.CallToolRequest, in progressArguments) (*mcp.CallToolResult, any, error) {
			for step := 1; step <= in.Steps; step++ {
				params := &mcp.ProgressNotificationParams{
					ProgressToken: req.Params.GetProgressToken(),
					Progress:      float64(step),
					Total:         float64(in.Steps),
					Message:       fmt.Sprintf("step %d", step),
				}
				if err := req.Session.NotifyProgress(ctx, params); err != nil {
					return nil, nil, err
				}
			}
			return text(fmt.Sprintf("%d steps", in.Steps)), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "ask", Description: "Asks for a name"},
		func(ctx context.Context, req *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
			answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{
				Message: "Your name?",
				RequestedSchema: &jsonschema.Schema{
					Type:       "object",
					Properties: map[string]*jsonschema.Schema{"name": {Type: "string"}},
					Required:   []string{"name"},
				},
			})
			if err != nil {
				return nil, nil, err
			}
			return text(fmt.Sprintf("%s: %v", answer.Action, answer.Content["name"])), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "slow", Description: "Runs until it is canceled"},
		func(ctx context.Context, _ *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
			select {
			case <-ctx.Done():
				canceled.Add(1)
				return nil, nil, ctx.Err()
			case <-time.After(20 * time.Second):
				return text("done"), nil, nil
			}
		})
	mcp.AddTool(server, &mcp.Tool{Name: "canceled", Description: "Number of canceled calls"},
		func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
			return text(fmt.Sprint(canceled.Load())), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "touch", Description: "Changes the counter"},
		func(ctx context.Context, _ *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
			err := server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "test://counter"})
			return text("touched"), nil, err
		})
	for page := 1; page <= 30; page++ {
		name := fmt.Sprintf("page_%02d", page)
		mcp.AddTool(server, &mcp.Tool{Name: name, Description: fmt.Sprintf("Tool %d", page)},
			func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
				return text(name), nil, nil
			})
	}
}

func addOthers(server *mcp.Server) {
	read := func(value func(uri string) string) mcp.ResourceHandler {
		return func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			uri := req.Params.URI
			contents := &mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: value(uri)}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
		}
	}
	constant := func(value string) func(string) string { return func(string) string { return value } }
	static := &mcp.Resource{Name: "static", URI: "test://static", MIMEType: "text/plain"}
	counter := &mcp.Resource{Name: "counter", URI: "test://counter", MIMEType: "text/plain"}
	server.AddResource(static, read(constant("static text")))
	server.AddResource(counter, read(constant("1")))
	item := &mcp.ResourceTemplate{Name: "item", URITemplate: "test://items/{id}", MIMEType: "text/plain"}
	server.AddResourceTemplate(item, read(func(uri string) string {
		return "item " + strings.TrimPrefix(uri, "test://items/")
	}))
	greet := &mcp.Prompt{
		Name:        "greet",
		Description: "Greets someone",
		Arguments:   []*mcp.PromptArgument{{Name: "name", Required: true}},
	}
	server.AddPrompt(greet, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		content := &mcp.TextContent{Text: "Greet " + req.Params.Arguments["name"]}
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: content}}}, nil
	})
}

func complete(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	values := []string{}
	for _, name := range []string{"Ada", "Alan", "Grace"} {
		if strings.HasPrefix(name, req.Params.Argument.Value) {
			values = append(values, name)
		}
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values}}, nil
}

func main() {
	server := build()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	http.Handle("/mcp", handler)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
