// The client of the SDK campaign on the Go SDK: runs the scenario with the server at the address given.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const stepTimeout = 20 * time.Second

// What the handlers have received.
var received struct {
	sync.Mutex
	questions []any
	progress  []any
	updated   []string
}

// step runs a step and prints its line of the transcript: what it returns, or its error.
func step(name string, run func(context.Context) (any, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	var result any
	err := context.DeadlineExceeded
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, err = run(ctx)
	}()
	select {
	case <-done:
	case <-time.After(stepTimeout + time.Second):
		// Not every call ends with its context.
		fmt.Printf(`{"step":%q,"error":"no response"}`+"\n", name)
		return
	}
	line := map[string]any{"step": name, "result": result}
	if err != nil {
		line = map[string]any{"step": name, "error": failure(err)}
	}
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

// failure is the error of a call as the SDK reports it.
func failure(err error) any {
	if wire := (*jsonrpc.Error)(nil); errors.As(err, &wire) {
		return map[string]any{"code": wire.Code, "message": err.Error(), "data": wire.Data}
	}
	return err.Error()
}

// settled reads a value until it is the expected one, at most for three seconds, and returns the last one.
func settled[T any](read func() T, expected func(T) bool) T {
	deadline := time.Now().Add(3 * time.Second)
	for {
		value := read()
		if expected(value) || time.Now().After(deadline) {
			return value
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func connect(ctx context.Context) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			received.Lock()
			defer received.Unlock()
			received.questions = append(received.questions, req.Params)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			received.Lock()
			defer received.Unlock()
			received.progress = append(received.progress, []any{req.Params.Progress, req.Params.Total, req.Params.Message})
		},
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
			received.Lock()
			defer received.Unlock()
			received.updated = append(received.updated, req.Params.URI)
		},
	})
	return client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: os.Args[1]}, nil)
}

func main() {
	var session *mcp.ClientSession
	step("initialize", func(context.Context) (any, error) {
		var err error
		if session, err = connect(context.Background()); err != nil {
			return nil, err
		}
		return session.InitializeResult(), nil
	})
	if session == nil {
		os.Exit(1)
	}
	call := func(name string, arguments map[string]any) func(context.Context) (any, error) {
		return func(ctx context.Context) (any, error) {
			if arguments == nil {
				arguments = map[string]any{}
			}
			return session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
		}
	}
	step("tools/list", func(ctx context.Context) (any, error) {
		tools := []*mcp.Tool{}
		for tool, err := range session.Tools(ctx, nil) {
			if err != nil {
				return nil, err
			}
			tools = append(tools, tool)
		}
		return tools, nil
	})
	step("echo", call("echo", map[string]any{"text": "héllo"}))
	step("add", call("add", map[string]any{"a": 1, "b": 2}))
	step("fail", call("fail", nil))
	step("unknown tool", call("missing", nil))
	step("progress", func(ctx context.Context) (any, error) {
		params := &mcp.CallToolParams{Name: "progress", Arguments: map[string]any{"steps": 3}}
		params.SetProgressToken("progress-1")
		result, err := session.CallTool(ctx, params)
		progress := settled(func() []any {
			received.Lock()
			defer received.Unlock()
			return received.progress
		}, func(progress []any) bool { return len(progress) == 3 })
		return map[string]any{"progress": progress, "result": result}, err
	})
	step("ask", func(ctx context.Context) (any, error) {
		result, err := call("ask", nil)(ctx)
		return map[string]any{"questions": received.questions, "result": result}, err
	})
	step("cancel", func(ctx context.Context) (any, error) {
		slow, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := call("slow", nil)(slow)
		return errors.Is(err, context.DeadlineExceeded), nil
	})
	step("canceled calls", func(ctx context.Context) (any, error) {
		return settled(func() string {
			result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "canceled", Arguments: map[string]any{}})
			if err != nil {
				return err.Error()
			}
			return result.Content[0].(*mcp.TextContent).Text
		}, func(text string) bool { return text == "1" }), nil
	})
	step("resources/list", func(ctx context.Context) (any, error) { return session.ListResources(ctx, nil) })
	step("resources/templates/list", func(ctx context.Context) (any, error) {
		return session.ListResourceTemplates(ctx, nil)
	})
	read := func(uri string) func(context.Context) (any, error) {
		return func(ctx context.Context) (any, error) {
			return session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		}
	}
	step("resources/read", read("test://static"))
	step("resources/read of a template", read("test://items/7"))
	step("resources/read of an unknown resource", read("test://missing"))
	step("subscribe", func(ctx context.Context) (any, error) {
		if resources := session.InitializeResult().Capabilities.Resources; resources == nil || !resources.Subscribe {
			return "unsupported", nil
		}
		if err := session.Subscribe(ctx, &mcp.SubscribeParams{URI: "test://counter"}); err != nil {
			return nil, err
		}
		touched, err := call("touch", nil)(ctx)
		if err != nil {
			return nil, err
		}
		updated := settled(func() []string {
			received.Lock()
			defer received.Unlock()
			return received.updated
		}, func(uris []string) bool { return len(uris) > 0 })
		err = session.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: "test://counter"})
		return map[string]any{"touched": touched, "updated": updated}, err
	})
	step("prompts/list", func(ctx context.Context) (any, error) { return session.ListPrompts(ctx, nil) })
	step("prompts/get", func(ctx context.Context) (any, error) {
		return session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "greet", Arguments: map[string]string{"name": "Ada"}})
	})
	step("completion", func(ctx context.Context) (any, error) {
		return session.Complete(ctx, &mcp.CompleteParams{
			Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "greet"},
			Argument: mcp.CompleteParamsArgument{Name: "name", Value: "A"},
		})
	})
	fmt.Println(`{"step":"restart"}`)
	bufio.NewReader(os.Stdin).ReadString('\n')
	step("echo after a restart", call("echo", map[string]any{"text": "again"}))
	step("close", func(context.Context) (any, error) { return nil, session.Close() })
}
