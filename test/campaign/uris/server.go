// An MCP server for the files of a folder: net/url and path.Clean. Prints its port.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
)

var root = os.Args[1]

type object = map[string]any

func listFiles() []object {
	files := []object{}
	filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name := at[len(root):]
			files = append(files, object{"uri": (&url.URL{Scheme: "file", Path: name}).String(), "name": name})
		}
		return err
	})
	return files
}

func readURI(uri string) (string, error) {
	parsed, err := url.Parse(uri)
	if err != nil {
		return "", err
	}
	if parsed.Scheme != "file" {
		return "", errors.New("not found")
	}
	text, err := os.ReadFile(root + path.Clean("/"+parsed.Path))
	return string(text), err
}

func resultOf(method string, uri string) (object, error) {
	switch method {
	case "initialize":
		server := object{"name": "files", "version": "1"}
		return object{"protocolVersion": "2025-06-18", "capabilities": object{"resources": object{}}, "serverInfo": server}, nil
	case "ping":
		return object{}, nil
	case "resources/list":
		return object{"resources": listFiles()}, nil
	case "resources/templates/list":
		return object{"resourceTemplates": []object{{"uriTemplate": "file:///{+path}", "name": "file"}}}, nil
	case "resources/read":
		text, err := readURI(uri)
		return object{"contents": []object{{"uri": uri, "text": text}}}, err
	}
	return nil, nil
}

func serve(response http.ResponseWriter, request *http.Request) {
	if request.Method != "POST" {
		response.WriteHeader(405)
		return
	}
	var message struct {
		ID     json.RawMessage
		Method string
		Params struct{ URI string }
	}
	if err := json.NewDecoder(request.Body).Decode(&message); err != nil {
		response.WriteHeader(400)
		return
	}
	if message.ID == nil {
		response.WriteHeader(202)
		return
	}
	reply := object{"jsonrpc": "2.0", "id": message.ID}
	result, err := resultOf(message.Method, message.Params.URI)
	if err != nil {
		reply["error"] = object{"code": -32602, "message": err.Error()}
	} else if result == nil {
		reply["error"] = object{"code": -32601, "message": "unknown method"}
	} else {
		reply["result"] = result
	}
	response.Header().Set("Content-Type", "application/json")
	json.NewEncoder(response).Encode(reply)
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listener, http.HandlerFunc(serve)))
}
