// Generated from the OpenAPI document by `npm run generate`. Do not edit.

export interface paths {
    "/api/v1/namespaces": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List namespaces */
        get: operations["listNamespaces"];
        put?: never;
        /**
         * Create a namespace
         * @description The name is the path segment of the MCP endpoint.
         */
        post: operations["createNamespace"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/namespaces/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a namespace */
        get: operations["getNamespace"];
        /**
         * Replace the labels of a namespace
         * @description Namespaces cannot be renamed; `name` in the body is ignored.
         */
        put: operations["updateNamespace"];
        post?: never;
        /**
         * Delete a namespace
         * @description A namespace that is not empty is rejected with the counts of its entries. `default` cannot be deleted. Discovered entries of other forwards that were moved to the namespace are disabled in the namespace of their forward.
         */
        delete: operations["deleteNamespace"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/namespaces/{name}/view": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List what a client of a namespace is offered
         * @description All entries of the namespace as a client of this era with these capabilities sees them, with the source of each, and those that it is not offered with the reason. Discovers the forwards with the capabilities if they are new, like such a client. Evaluators that filter lists are not applied.
         */
        get: operations["viewNamespace"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/forwards": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List forwards */
        get: operations["listForwards"];
        put?: never;
        /**
         * Register a forward
         * @description Registers an upstream MCP server and discovers its tools, resources and prompts. An upstream that is down or takes more than 30 s is registered with `available: false` and discovered in the background.
         */
        post: operations["createForward"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/forwards/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a forward */
        get: operations["getForward"];
        put?: never;
        post?: never;
        /**
         * Delete a forward and its discovered entries
         * @description Deletes the overrides and marks of its entries as well. In-flight calls finish.
         */
        delete: operations["deleteForward"];
        options?: never;
        head?: never;
        /**
         * Change a forward
         * @description A JSON merge patch: missing members stay unchanged. Overrides, renames, moves and marks of its entries are retained. Rejected with the names that are in use in the new namespace or with the new prefix, and if `If-Match` is not the current `ETag`. Waits up to 30 s for the discovery of a new address or with new headers.
         */
        patch: operations["updateForward"];
        trace?: never;
    };
    "/api/v1/forwards/{name}/refreshes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Refresh a forward
         * @description Repeats discovery. If it fails, the previously discovered entries remain.
         */
        post: operations["refreshForward"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/forwards/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Test the connection to an upstream step by step
         * @description Resolves its host, connects, and reads its lists, for at most 5 s per step and 30 s in all. Stops at the first step that fails. Executes no tool, registers nothing and closes its sessions. Only one run at a time.
         */
        post: operations["testForward"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/forwards/{name}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List changes of availability and discoveries of a forward
         * @description Since the start of the process: the latest 200, fewer of each of more than 100 forwards.
         */
        get: operations["getForwardHistory"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tools": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List tools
         * @description Entries are sorted by registration. Discovered entries keep the order of their upstream.
         */
        get: operations["listTools"];
        put?: never;
        /**
         * Register a tool
         * @description Creates the namespace if it does not exist. Unknown members are stored with a warning, unless they begin with `x-`.
         */
        post: operations["createTool"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tools/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a tool */
        get: operations["getTool"];
        /**
         * Replace a tool
         * @description Changing `name` renames the tool, changing `namespace` moves it. On a discovered tool, values that differ from the upstream are stored as overrides and survive rediscovery. Unknown members that the tool does not have and that do not begin with `x-` are rejected, since they are probably misspelled.
         */
        put: operations["updateTool"];
        post?: never;
        /**
         * Delete a tool
         * @description A discovered tool is registered again by the next discovery of its forward, with the changes of operators. To hide it, set `enabled` to false.
         */
        delete: operations["deleteTool"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tools/enabled": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Enable or disable tools
         * @description Changes all selected tools, or none. A disabled tool is in no MCP list and not found by any MCP method or action; it keeps its key. Disabling it covers the copies that actions made of it, and lasts until it is enabled or its forward is deleted.
         */
        post: operations["enableTools"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/resources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List resources
         * @description Entries are sorted by registration. Discovered entries keep the order of their upstream.
         */
        get: operations["listResources"];
        put?: never;
        /**
         * Register a resource
         * @description Creates the namespace if it does not exist. Unknown members are stored with a warning, unless they begin with `x-`.
         */
        post: operations["createResource"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/resources/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a resource */
        get: operations["getResource"];
        /**
         * Replace a resource
         * @description Changing `name` renames the resource, changing `namespace` moves it. On a discovered resource, values that differ from the upstream are stored as overrides and survive rediscovery. Unknown members that the resource does not have and that do not begin with `x-` are rejected, since they are probably misspelled.
         */
        put: operations["updateResource"];
        post?: never;
        /**
         * Delete a resource
         * @description A discovered resource is registered again by the next discovery of its forward, with the changes of operators. To hide it, set `enabled` to false.
         */
        delete: operations["deleteResource"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/resources/enabled": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Enable or disable resources
         * @description Changes all selected resources, or none. A disabled resource is in no MCP list and not found by any MCP method or action; it keeps its key. Disabling it covers the copies that actions made of it, and lasts until it is enabled or its forward is deleted.
         */
        post: operations["enableResources"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/prompts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List prompts
         * @description Entries are sorted by registration. Discovered entries keep the order of their upstream.
         */
        get: operations["listPrompts"];
        put?: never;
        /**
         * Register a prompt
         * @description Creates the namespace if it does not exist. Unknown members are stored with a warning, unless they begin with `x-`.
         */
        post: operations["createPrompt"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/prompts/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a prompt */
        get: operations["getPrompt"];
        /**
         * Replace a prompt
         * @description Changing `name` renames the prompt, changing `namespace` moves it. On a discovered prompt, values that differ from the upstream are stored as overrides and survive rediscovery. Unknown members that the prompt does not have and that do not begin with `x-` are rejected, since they are probably misspelled.
         */
        put: operations["updatePrompt"];
        post?: never;
        /**
         * Delete a prompt
         * @description A discovered prompt is registered again by the next discovery of its forward, with the changes of operators. To hide it, set `enabled` to false.
         */
        delete: operations["deletePrompt"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/prompts/enabled": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Enable or disable prompts
         * @description Changes all selected prompts, or none. A disabled prompt is in no MCP list and not found by any MCP method or action; it keeps its key. Disabling it covers the copies that actions made of it, and lasts until it is enabled or its forward is deleted.
         */
        post: operations["enablePrompts"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/services": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List capability services */
        get: operations["listServices"];
        put?: never;
        /**
         * Register a capability service
         * @description Registers the gRPC address of a capability service. Name, type, subtype and language identify the entry.
         */
        post: operations["createService"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/services/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a capability service */
        get: operations["getService"];
        put?: never;
        post?: never;
        /** Delete a capability service */
        delete: operations["deleteService"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/services/{name}/provisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Store configuration and secrets in a capability service
         * @description Calls the first registered entry of the name. Configuration and secrets are not stored, logged or included in errors.
         */
        post: operations["provisionService"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List evaluators
         * @description Prompts need the right `read_bodies`; they are omitted without it.
         */
        get: operations["listEvaluators"];
        /**
         * Replace evaluators
         * @description Replaces all evaluators and compiles their actions. A changed action file takes effect with the next replacement. An evaluator whose action cannot be compiled is skipped with a warning, unless `strict` is set. A rejected request changes nothing. In-flight requests finish with the previous evaluators. `If-Match` with an earlier `ETag` fails with `CONFLICT` if another revision is active, like `expected_revision`; `*` fails if no revision is active. If both are set, both must match.
         */
        put: operations["replaceEvaluators"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators/dry-run": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Evaluate a request with an evaluator that is not active
         * @description One evaluation in a process of its own, one at a time. Validates the evaluator and loads its action like an update. Without `answer`, the model is called. Nothing is enforced, stored or counted, and copies of tools are not made.
         */
        post: operations["dryRunEvaluator"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators/llm-connections": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List LLM connections
         * @description Connection settings come from the bootstrap file and are never returned.
         */
        get: operations["listLlmConnections"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators/namespaces": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List namespace bindings */
        get: operations["listNamespaceBindings"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators/namespaces/{namespace}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Bind a namespace to a conversation
         * @description The namespace does not have to exist. Bindings are lost when the service stops.
         */
        put: operations["bindNamespace"];
        post?: never;
        /** Unbind a namespace */
        delete: operations["unbindNamespace"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators/revisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List evaluator revisions
         * @description At most 50 revisions are stored, including the active one.
         */
        get: operations["listEvaluatorRevisions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators/revisions/active": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the active evaluator revision */
        get: operations["getActiveEvaluatorRevision"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators/revisions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an evaluator revision */
        get: operations["getEvaluatorRevision"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators/revisions/{id}/activate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Activate an evaluator revision
         * @description Submits the evaluators of the revision again, as a new revision. Those that were skipped when it was active may be skipped again, unless `strict` is set. The body is optional. `If-Match` with an earlier `ETag` fails with `CONFLICT` if another revision is active, like `expected_revision`; `*` fails if no revision is active. If both are set, both must match.
         */
        post: operations["activateEvaluatorRevision"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/identity": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get who may call, and their roles
         * @description It has no secret: keys are hashes, and those of token issuers are public.
         */
        get: operations["getIdentity"];
        /**
         * Replace who may call, and their roles
         * @description Replaces all settings. It counts for the next request on every connection, on all replicas before the response. Requests, streams and sessions that it does not accept any more end. `details` of `UNPROCESSABLE` has all problems. Files have their name and text here, not their path. `If-Match` with an earlier `ETag` fails with `CONFLICT` if another revision is active, like `expected_revision`; `*` fails if no revision is active. If both are set, both must match.
         */
        put: operations["replaceIdentity"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/identity/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get warnings of the active settings, and the last use and expiry of keys
         * @description The last use is that at the replica that answers.
         */
        get: operations["getIdentityStatus"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/identity/revisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List identity revisions
         * @description At most 50 revisions are stored, including the active one.
         */
        get: operations["listIdentityRevisions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/identity/revisions/active": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the active identity revision */
        get: operations["getActiveIdentityRevision"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/identity/revisions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an identity revision */
        get: operations["getIdentityRevision"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/identity/revisions/{id}/activate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Activate an identity revision
         * @description Submits the settings of the revision again, as a new revision. It counts for the next request on every connection, on all replicas before the response. Requests, streams and sessions that it does not accept any more end. The body is optional. `If-Match` with an earlier `ETag` fails with `CONFLICT` if another revision is active, like `expected_revision`; `*` fails if no revision is active. If both are set, both must match.
         */
        post: operations["activateIdentityRevision"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/state": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Apply a desired state
         * @description Creates, changes and, with `prune`, deletes namespaces, forwards, services, tools and evaluators until they are as described. Sections that are missing stay unchanged. Evaluators and `identity` require the right `administer`. All changes of the registry are one commit: all or nothing. Evaluators have a store of their own: new and changed ones are active before that commit, deleted ones until after it. `identity` is replaced as a whole before that commit. A state that cannot be applied is `UNPROCESSABLE`, with all problems. `If-Match` with the `ETag` of a dry run fails with `CONFLICT` if other changes would be made than those that it has returned. The response is sent when the discoveries of changed forwards have ended, or after 30 seconds. The body may have up to 16 MiB and 20,000 entries.
         */
        put: operations["applyState"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tool-calls": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List tool-call events
         * @description The latest 1000 events are stored in memory, of each replica.
         */
        get: operations["listToolCallEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tool-calls/notifications": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Watch tool-call events
         * @description Server-sent events: `event` is the `eventType`, `id` the `eventId` and `data` a `ToolCallEvent`. Past events are not replayed. A comment is sent every 15 s. A client more than 1000 events behind is disconnected. At most 100 clients can connect.
         */
        get: operations["watchToolCallEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tasks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List tasks
         * @description Open tasks by default; select others with `state`. Replicas share them.
         */
        get: operations["listTasks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tasks/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a task */
        get: operations["getTask"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tasks/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel a task
         * @description Cancels the task at its upstream, which may still complete it. Canceling it again has no effect; a task that has ended otherwise is a conflict.
         */
        post: operations["cancelTask"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Watch events of the service
         * @description Server-sent events. `event` is the topic; `data` is a `ToolCallEvent` (tool-calls), a `ForwardEvent` (forwards), a `ServiceEvent` (services), an `EvaluatorsEvent` (evaluators) or a `RegistryEvent` (registry). With the header `Last-Event-ID`, the stream continues after that event. The latest 1000 tool-call events and 1000 others are stored; a client that misses events because it is slow, resumes too late or resumes after a restart gets a `missed` event (`MissedEvents`). A comment is sent every 15 s. At most 100 clients can connect.
         */
        get: operations["watchEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the latest lines of the log
         * @description The latest 1000 lines are stored in memory: those of the process that answers.
         */
        get: operations["listLogLines"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/logs/notifications": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Watch the log
         * @description Server-sent events: `data` is a `LogLine`. With the header `Last-Event-ID`, the stream continues after that event. A client that misses lines, because it is slow, gets an event `missed` with their number (`{"count": 5}`). A comment is sent every 15 s. At most 20 clients can connect.
         */
        get: operations["watchLogLines"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/interactions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List interactions
         * @description Chat completions recorded by the inference listener. The latest are stored in memory (default 1000), of each replica. When their bodies exceed 256 MiB in total, the oldest bodies are evicted.
         */
        get: operations["listInteractions"];
        put?: never;
        post?: never;
        /** Delete all interactions */
        delete: operations["clearInteractions"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/config/inference": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Configure the inference listener
         * @description Sets the upstream, the interaction capacity, or both. Applies to new requests and is lost on restart. Unknown members are rejected.
         */
        post: operations["configureInference"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Liveness check */
        get: operations["getHealth"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Liveness check (alias of `/healthz`) */
        get: operations["getHealthAlias"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Readiness check */
        get: operations["getReadiness"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/management/statistics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get statistics */
        get: operations["getStatistics"];
        /** Proxied to the legacy backend, like all paths that begin with this one */
        put: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                400: components["responses"]["BadRequest"];
                401: components["responses"]["Unauthorized"];
                403: components["responses"]["Forbidden"];
                502: components["responses"]["BadGateway"];
                503: components["responses"]["Unavailable"];
                /** @description Response of the legacy backend. */
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        /** Proxied to the legacy backend, like all paths that begin with this one */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                400: components["responses"]["BadRequest"];
                401: components["responses"]["Unauthorized"];
                403: components["responses"]["Forbidden"];
                502: components["responses"]["BadGateway"];
                503: components["responses"]["Unavailable"];
                /** @description Response of the legacy backend. */
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        /** Proxied to the legacy backend, like all paths that begin with this one */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                400: components["responses"]["BadRequest"];
                401: components["responses"]["Unauthorized"];
                403: components["responses"]["Forbidden"];
                502: components["responses"]["BadGateway"];
                503: components["responses"]["Unavailable"];
                /** @description Response of the legacy backend. */
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        options?: never;
        head?: never;
        /** Proxied to the legacy backend, like all paths that begin with this one */
        patch: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                400: components["responses"]["BadRequest"];
                401: components["responses"]["Unauthorized"];
                403: components["responses"]["Forbidden"];
                502: components["responses"]["BadGateway"];
                503: components["responses"]["Unavailable"];
                /** @description Response of the legacy backend. */
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
            };
        };
        trace?: never;
    };
    "/api/v1/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get metrics */
        get: operations["getMetrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/replicas": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the replicas
         * @description The processes that share the database. Empty for a service with a registry of its own.
         */
        get: operations["listReplicas"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/time-series": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get time series of the last hour
         * @description Tool calls, completions, event-loop delay and memory in steps of 10 s or multiples of that. The last step is the current one and not complete. At most 200 series of one grouping are stored; all other calls are in the series `other`. With `by=method`, the series count all MCP requests of clients instead of tool calls.
         */
        get: operations["getTimeSeries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/plugins": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List plugins of the web console */
        get: operations["listPlugins"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the OpenAPI document */
        get: operations["getOpenApi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/backup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Download a backup
         * @description The state of one moment as a gzip-compressed tar archive: `manifest.json` with the version, sizes and checksums, then `registry.json` and `records.snapshot`. It contains neither the session key nor secrets. `sluice backup` verifies what it downloads, `sluice restore` reads it.
         */
        get: operations["createBackup"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/diagnostics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Check the service and what it depends on
         * @description Checks the platform, the registry folder, limits of the operating system, the headers of the proxy that this request passed, and the configured addresses: name, connection, certificate and HTTP, for at most 5 seconds each. No credentials are sent, except by the tests of forwards that are not available (`testForward`). Only one run at a time.
         */
        post: operations["runDiagnostics"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get who makes the request, and how to sign in
         * @description A credential that is not accepted is no error here: `rejected` says why.
         */
        get: operations["getSession"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/session/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Sign out
         * @description Ends the sign-in that the cookie of the request proves, and revokes its refresh token at the issuer.
         */
        post: operations["signOut"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List sign-ins */
        get: operations["listSessions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * End a sign-in
         * @description Revokes its refresh token at the issuer, too.
         */
        delete: operations["endSession"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/blocks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List blocks
         * @description Without the right `read_bodies`, the list has forwards only.
         */
        get: operations["listBlocks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/blocks/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a block
         * @description Without the right `read_bodies`, those of principals and keys are not found.
         */
        get: operations["getBlock"];
        /**
         * Block a principal, key or forward
         * @description Principals, by id whatever their kind, and keys require the right `administer`. Their requests get 401 on every listener; their sessions, streams, suspended calls, tasks and calls in flight end, also upstream. A blocked forward is unknown to clients, and calls to it end. The response is sent when that has happened at all live replicas. Repeating it replaces end and reason. Whoever blocks himself gets `CONFLICT`, unless `lock_out` allows it; `UNPROCESSABLE`: there is no such forward. The body is optional.
         */
        put: operations["setBlock"];
        post?: never;
        /**
         * Unblock a principal, key or forward
         * @description Without the right `administer`, principals and keys are not found. Sessions that were opened before do not continue: their clients initialize again.
         */
        delete: operations["removeBlock"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/service-catalog": components["pathItems"]["Proxied"];
    "/api/v1/service-template": components["pathItems"]["Proxied"];
    "/api/v1/data-store": components["pathItems"]["Proxied"];
    "/api/v1/capabilities": components["pathItems"]["Proxied"];
    "/api/v1/chat": components["pathItems"]["Proxied"];
    "/api/v1/management/info": components["pathItems"]["Proxied"];
    "/api/v2/code-execution": components["pathItems"]["Proxied"];
    "/api/v2/tool-calls": components["pathItems"]["Proxied"];
    "/api/v1/namespaces/{name}/mcp": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Open the notification stream of an MCP session */
        get: operations["openMcpStream"];
        put?: never;
        /** Send an MCP message to the endpoint of a namespace */
        post: operations["callMcp"];
        /** End an MCP session */
        delete: operations["endMcpSession"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get all metrics for Prometheus */
        get: operations["getPrometheusMetrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/docs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the API reference */
        get: operations["getReferencePage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/docs/json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the OpenAPI document for the API reference */
        get: operations["getReferenceJson"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/docs/yaml": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the OpenAPI document as YAML */
        get: operations["getReferenceYaml"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/docs/static/{file}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a file of the API reference */
        get: operations["getReferenceFile"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/admin/{file}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the web console; 404 in the headless distribution */
        get: operations["getConsole"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/session/login": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Sign in: leads a browser to the issuer */
        get: operations["signIn"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/session/callback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Complete a sign-in: leads a browser to the console */
        get: operations["completeSignIn"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        ActivationInput: {
            /** @description Expected active revision; CONFLICT if it differs. 0 expects none. */
            expected_revision?: number;
        };
        Binding: {
            namespace: string;
            conversation_id: string;
        };
        BindingInput: {
            /** @description Conversation id for requests of the namespace. */
            conversation_id: string;
        };
        Block: {
            /** @description Id of a principal or key, or `forward:` and the name of a forward. */
            id: string;
            /**
             * Format: date-time
             * @description UTC
             */
            since: string;
            /**
             * Format: date-time
             * @description UTC; missing if it does not end by itself.
             */
            until?: string;
            reason?: string;
            /** @description Principal that has blocked it; missing if it was anonymous. */
            by?: string;
        };
        BlockInput: {
            /** @description For how long; without it, until the block is removed. */
            for?: string;
            /** @description Why, for other administrators. The blocked principal does not see it. */
            reason?: string;
        };
        CallSeries: {
            /** @description Empty for all calls */
            labels: {
                namespace?: string;
                forward?: string;
                /** @description Capability service that executes the tools; in place of a forward */
                service?: string;
                tool?: string;
                /** @description MCP method */
                method?: string;
                /** @enum {string} */
                outcome?: "completed" | "tool_error" | "failed" | "timeout" | "canceled" | "blocked";
                /**
                 * @description Category of calls with the outcome `failed`
                 * @enum {string}
                 */
                category?: "SERVICE_UNAVAILABLE" | "TOOL_DEFINITION_ERROR" | "INVALID_ARGUMENTS" | "EXECUTION_ERROR" | "POLICY_BLOCKED" | "UNKNOWN";
                /**
                 * @description All calls that have no series of their own
                 * @constant
                 */
                other?: true;
            };
            /** @description Calls that ended. Calls that an evaluator rejected are none of a forward or service: they were not sent */
            calls: number[];
            /** @description The sum of `failed`, `tool_errors` and `timeouts` */
            errors: number[];
            /** @description Calls without a usable result */
            failed: number[];
            /** @description Calls whose tool reported an error */
            tool_errors: number[];
            /** @description Calls without a result in time */
            timeouts: number[];
            /** @description Calls that their client canceled */
            canceled: number[];
            /** @description Calls that an evaluator blocked */
            blocked: number[];
            /** @description Milliseconds, interpolated between fixed bounds; null without a finished call */
            p50_ms: (number | null)[];
            /** @description Milliseconds, interpolated between fixed bounds; null without a finished call */
            p95_ms: (number | null)[];
        };
        DiagnosticCheck: {
            /** @description What was checked, such as `forward crm` */
            name: string;
            /** @enum {string} */
            status: "ok" | "warning" | "failed";
            /** @description What was found, without credentials */
            message: string;
            /** @description What to do about it */
            remedy?: string;
        };
        Diagnostics: {
            /** @description Version of the service */
            version: string;
            checks: components["schemas"]["DiagnosticCheck"][];
        };
        DryRunInput: {
            evaluator: components["schemas"]["EvaluatorInput"];
            /** @description The request to evaluate. */
            request: {
                /** @description MCP method, such as `tools/call`. */
                method: string;
                /**
                 * @description Namespace of the request.
                 * @default default
                 */
                namespace?: string;
                /** @description Parameters of the request, such as `{"name":"echo","arguments":{}}`. */
                params?: {
                    [key: string]: unknown;
                };
                /** @description Conversation whose history is available. */
                conversation_id?: string;
            };
            /** @description Answer to evaluate instead of calling the LLM. */
            answer?: string;
        };
        DryRunResult: {
            /**
             * @description Decision of the action, or why there is none
             * @enum {string}
             */
            verdict: "pass" | "warn" | "block" | "reject_malformed" | "filter_tools" | "set_metadata" | "llm_failure" | "action_failure";
            /** @description Whether such a request would be rejected */
            rejected: boolean;
            /** @description Whether the trigger matches the request */
            matches: boolean;
            /** @description Reason of the action, its warning, or the failure */
            reason?: string;
            /** @description JSON-RPC error that the client would get */
            error?: {
                code: number;
                message: string;
                data?: {
                    [key: string]: unknown;
                };
            };
            /** @description Names of the tools that `tools/list` would return */
            tools?: string[];
            /** @description Metadata that the action set */
            metadata?: {
                [key: string]: string;
            };
            /** @description Responses of the action that others replaced */
            ignored_responses: number;
            /** @description User prompt of the LLM */
            prompt: string;
            /** @description Omitted if the LLM failed */
            llm?: {
                /** @description Answer that the action got */
                answer: string;
                /** @description Calls of the model; 0 with an `answer` in the request */
                calls: number;
                duration_ms: number;
                /** @description Why the answer does not match `result_schema` */
                schema_error?: string;
            };
            /** @description Omitted if the action did not run */
            action?: {
                /** @description Without the start of the host process */
                duration_ms: number;
                /** @description Largest resident memory of the host process, if it is known */
                memory_bytes?: number;
                /** @enum {string} */
                fault?: "trap" | "timeout" | "memory" | "limit" | "host";
            };
            /** @description Log lines of the action; `debug` is its output */
            log: {
                /** @enum {string} */
                level: "debug" | "info" | "warn" | "error";
                message: string;
            }[];
            /** @description Tools that the action would copy to other namespaces, at most 100 */
            copies: {
                tool: string;
                namespace: string;
            }[];
        };
        /** @description Duration in milliseconds with three decimals */
        Duration: {
            /** @description Number of measurements */
            count: number;
            /** @description Sum of all measurements, in milliseconds */
            total_ms: number;
            /** @description `total_ms` divided by `count`; 0 without measurements */
            avg_ms: number;
        };
        Enabled: {
            enabled: boolean;
            /** @description Number of selected entries. */
            count: number;
            /** @description Upstream names or URIs that the forward has not discovered yet. The mark applies when they are. */
            pending?: string[];
        };
        EnabledByName: {
            /** @description `false` hides the entries from MCP clients and actions, `true` makes them available. */
            enabled: boolean;
            /** @description Namespace of the entries. Default: `default`, or else the only namespace with an entry of that name. */
            namespace?: string;
            /** @description Selects by upstream names or URIs of this forward, in all namespaces. Entries that are not discovered yet are marked: the mark applies when they are. */
            forward?: string;
            /** @description Names of the entries; upstream names with `forward`. */
            names?: string[];
        };
        EnabledByUri: {
            /** @description `false` hides the entries from MCP clients and actions, `true` makes them available. */
            enabled: boolean;
            /** @description Namespace of the entries. Default: `default`, or else the only namespace with an entry of that name. */
            namespace?: string;
            /** @description Selects by upstream names or URIs of this forward, in all namespaces. Entries that are not discovered yet are marked: the mark applies when they are. */
            forward?: string;
            /** @description Names of the resources; not with `forward`. */
            names?: string[];
            /** @description URIs or URI templates of the resources. */
            uris?: string[];
        };
        EntrySource: {
            /** @constant */
            kind: "forward";
            forward: string;
            /** @description Name at the upstream; URI of a resource */
            upstreamKey: string;
            /**
             * @description Era of the catalog that is chosen for the client
             * @enum {string}
             */
            era?: "legacy" | "modern";
            /**
             * @description A copy that an action made
             * @constant
             */
            copied?: true;
            /**
             * @description Moved to this namespace by an operator
             * @constant
             */
            moved?: true;
            /**
             * @description Renamed by an operator
             * @constant
             */
            renamed?: true;
        } | {
            /** @constant */
            kind: "manual";
            /** @description `toolType` of a tool, `type` of a resource */
            type?: string;
            /** @description `uri` of a tool, without user, password and query */
            uri?: string;
        };
        Evaluator: {
            name: string;
            trigger: {
                method: string;
                /** @description Namespace of matching requests; null matches all namespaces. */
                namespace: string | null;
            };
            llm: {
                /** @enum {string} */
                operation: "classify" | "filter" | "augment";
                prompt: string;
                connection: string;
                result_schema: {
                    [key: string]: unknown;
                } | null;
            };
            processor: {
                /** @description Path of the action, as submitted. */
                path: string;
            };
            /** @enum {string} */
            on_error: "continue" | "block";
        };
        EvaluatorInput: {
            /** @description Unique name. */
            name: string;
            trigger: {
                /** @description MCP method, such as `tools/call`. */
                method: string;
                /**
                 * @description Namespace of matching requests; null matches all namespaces.
                 * @default null
                 */
                namespace?: string | null;
            };
            /** @description LLM call. Unknown members are rejected: `model`, `url` and `api_key` are set in `llm_connections` of the bootstrap file. */
            llm: {
                /**
                 * @description Kind of LLM task.
                 * @enum {string}
                 */
                operation: "classify" | "filter" | "augment";
                /** @description System prompt. */
                prompt: string;
                /** @description Name of an entry in `llm_connections`. */
                connection: string;
                /**
                 * @description JSON Schema of the LLM output: draft 2020-12, or the draft named by `$schema`. References to other documents are not supported.
                 * @default null
                 */
                result_schema?: {
                    [key: string]: unknown;
                } | null;
            };
            processor: {
                /** @description Compiled action on the server. A relative path resolves against the bootstrap file's folder. */
                path: string;
            };
            /**
             * @description Continue or block the request if the LLM call or the action fails.
             * @default continue
             * @enum {string}
             */
            on_error?: "continue" | "block";
        };
        /** @description Counters of an evaluator */
        EvaluatorMetrics: {
            decisions: {
                pass: number;
                block: number;
                reject_malformed: number;
                warn: number;
                filter_tools: number;
                set_metadata: number;
            };
            llm: {
                calls_success: number;
                calls_failure: number;
                empty_results: number;
                duration: components["schemas"]["Duration"];
            };
            schema: {
                validations_pass: number;
                validations_fail: number;
                retries_success: number;
                retries_failure: number;
            };
            wasm: {
                executions: number;
                not_found: number;
                duration: components["schemas"]["Duration"];
            };
            /** @description Duration of the whole evaluation */
            pipeline_duration: components["schemas"]["Duration"];
            failures: {
                llm_failure: number;
                action_failure: number;
                /** @description Requests that were rejected because there was no room to evaluate them */
                busy: number;
                /** @description Failures since the last decision, without busy evaluations */
                consecutive: number;
                /** @description The latest failure */
                last?: {
                    /**
                     * Format: date-time
                     * @description UTC
                     */
                    at: string;
                    message: string;
                    /** @description Why it failed, in identifiers of at most 64 characters */
                    reason?: {
                        /** @description Category of the failure */
                        kind: string;
                        /** @description HTTP status of the model server */
                        status?: number;
                        /** @description Member of the request that its error names */
                        param?: string;
                        /** @description Kind of its error */
                        code?: string;
                    };
                };
            };
        };
        EvaluatorRevision: {
            /** @description Revision number, from 1. */
            id: number;
            /**
             * Format: date-time
             * @description UTC
             */
            created_at: string;
            /**
             * Format: date-time
             * @description UTC; omitted if never active.
             */
            activated_at?: string;
            /** @enum {string} */
            status: "active" | "superseded" | "rejected";
            /** @description Checksum of the content. */
            checksum: string;
            /**
             * @description Source of the revision: bootstrap file or API.
             * @enum {string}
             */
            origin: "startup" | "api";
            /** @description Id of the caller. */
            actor?: string;
            /** @description Reason for the rejection. */
            failure_reason?: string;
        };
        EvaluatorRevisionContent: {
            /** @description Revision number, from 1. */
            id: number;
            /**
             * Format: date-time
             * @description UTC
             */
            created_at: string;
            /**
             * Format: date-time
             * @description UTC; omitted if never active.
             */
            activated_at?: string;
            /** @enum {string} */
            status: "active" | "superseded" | "rejected";
            /** @description Checksum of the content. */
            checksum: string;
            /**
             * @description Source of the revision: bootstrap file or API.
             * @enum {string}
             */
            origin: "startup" | "api";
            /** @description Id of the caller. */
            actor?: string;
            /** @description Reason for the rejection. */
            failure_reason?: string;
            /** @description Evaluators as submitted; those of a rejected revision may be invalid. */
            evaluators: components["schemas"]["Evaluator"][];
            /** @description Names of the evaluators that were skipped. */
            skipped: string[];
        };
        EvaluatorWarning: {
            /** @description Name of the evaluator. */
            evaluator: string;
            /** @description Path of the action, as submitted; if its compilation failed. */
            path?: string;
            /**
             * @description The first two: the evaluator was skipped. `INVALID_EVALUATOR`: it was skipped for the same reason when the activated revision was loaded first. `TRIGGER_NEVER_MATCHES`: it is active, but no request has its method, or its namespace does not exist.
             * @enum {string}
             */
            code: "WASM_COMPILE_FAILED" | "INVALID_EVALUATOR" | "TRIGGER_NEVER_MATCHES";
            message: string;
        };
        /** @description A set of evaluators became active. */
        EvaluatorsEvent: {
            /**
             * Format: date-time
             * @description UTC
             */
            timestamp: string;
            /** @description The revision that became active */
            revision: number;
            /** @description Number of evaluators that run */
            loaded: number;
            /** @description Number of evaluators that could not be loaded */
            skipped: number;
        };
        EvaluatorsInput: {
            /** @description Evaluators in order of execution. An empty list deletes all. */
            evaluators: components["schemas"]["EvaluatorInput"][];
            /** @description Expected active revision; CONFLICT if it differs. 0 expects none. */
            expected_revision?: number;
        };
        Expose: {
            tools?: {
                /** @description Globs of the entries that are discovered (default: all). `*` matches any characters, `?` one, case-sensitively. */
                allow?: string[];
                /** @description Globs of entries that are not discovered, also if they are allowed. */
                deny?: string[];
                /**
                 * @description State of entries that appear after the first discovery (default `enabled`). `disabled`: hidden until an operator enables them.
                 * @enum {string}
                 */
                new?: "enabled" | "disabled";
            };
            resources?: {
                /** @description Globs of the entries that are discovered (default: all). `*` matches any characters, `?` one, case-sensitively. */
                allow?: string[];
                /** @description Globs of entries that are not discovered, also if they are allowed. */
                deny?: string[];
                /**
                 * @description State of entries that appear after the first discovery (default `enabled`). `disabled`: hidden until an operator enables them.
                 * @enum {string}
                 */
                new?: "enabled" | "disabled";
            };
            prompts?: {
                /** @description Globs of the entries that are discovered (default: all). `*` matches any characters, `?` one, case-sensitively. */
                allow?: string[];
                /** @description Globs of entries that are not discovered, also if they are allowed. */
                deny?: string[];
                /**
                 * @description State of entries that appear after the first discovery (default `enabled`). `disabled`: hidden until an operator enables them.
                 * @enum {string}
                 */
                new?: "enabled" | "disabled";
            };
        };
        ExposeInput: {
            tools?: {
                /** @description Globs of the entries that are discovered (default: all). `*` matches any characters, `?` one, case-sensitively. */
                allow?: string[];
                /** @description Globs of entries that are not discovered, also if they are allowed. */
                deny?: string[];
                /**
                 * @description State of entries that appear after the first discovery (default `enabled`). `disabled`: hidden until an operator enables them.
                 * @enum {string}
                 */
                new?: "enabled" | "disabled";
            };
            resources?: {
                /** @description Globs of the entries that are discovered (default: all). `*` matches any characters, `?` one, case-sensitively. */
                allow?: string[];
                /** @description Globs of entries that are not discovered, also if they are allowed. */
                deny?: string[];
                /**
                 * @description State of entries that appear after the first discovery (default `enabled`). `disabled`: hidden until an operator enables them.
                 * @enum {string}
                 */
                new?: "enabled" | "disabled";
            };
            prompts?: {
                /** @description Globs of the entries that are discovered (default: all). `*` matches any characters, `?` one, case-sensitively. */
                allow?: string[];
                /** @description Globs of entries that are not discovered, also if they are allowed. */
                deny?: string[];
                /**
                 * @description State of entries that appear after the first discovery (default `enabled`). `disabled`: hidden until an operator enables them.
                 * @enum {string}
                 */
                new?: "enabled" | "disabled";
            };
        };
        ExposePatch: {
            tools?: {
                /** @description Globs of the entries that are discovered (default: all). `*` matches any characters, `?` one, case-sensitively. null: all. */
                allow?: string[] | null;
                /** @description Globs of entries that are not discovered, also if they are allowed. null: none. */
                deny?: string[] | null;
                /** @description State of entries that appear after the first discovery (default `enabled`). `disabled`: hidden until an operator enables them. null: `enabled`. */
                new?: ("enabled" | "disabled") | null;
            } | null;
            resources?: {
                /** @description Globs of the entries that are discovered (default: all). `*` matches any characters, `?` one, case-sensitively. null: all. */
                allow?: string[] | null;
                /** @description Globs of entries that are not discovered, also if they are allowed. null: none. */
                deny?: string[] | null;
                /** @description State of entries that appear after the first discovery (default `enabled`). `disabled`: hidden until an operator enables them. null: `enabled`. */
                new?: ("enabled" | "disabled") | null;
            } | null;
            prompts?: {
                /** @description Globs of the entries that are discovered (default: all). `*` matches any characters, `?` one, case-sensitively. null: all. */
                allow?: string[] | null;
                /** @description Globs of entries that are not discovered, also if they are allowed. null: none. */
                deny?: string[] | null;
                /** @description State of entries that appear after the first discovery (default `enabled`). `disabled`: hidden until an operator enables them. null: `enabled`. */
                new?: ("enabled" | "disabled") | null;
            } | null;
        };
        /** @description Counters of a filter. Each message of a batch counts as one request */
        FilterMetrics: {
            /** @description Requests passed to the next filter */
            requests_continue: number;
            /** @description Requests rejected with a JSON-RPC error or an HTTP status of 400 or above */
            requests_reject: number;
            /** @description Requests answered in any other way: result, stream, batch, HTTP status below 400 */
            requests_other: number;
            /** @description Exceptions thrown by the filter */
            errors: number;
            /** @description Time spent in the filter until it passed on or answered the request, including waiting but not streaming */
            duration: components["schemas"]["Duration"];
        };
        Forward: {
            name: string;
            address: string;
            namespace: string;
            labels: {
                [key: string]: string;
            };
            prefix?: string;
            /** @description Headers of all requests to the upstream, as written: references are not resolved. */
            headers?: {
                [key: string]: string;
            };
            /** @description Exposed entries. All if it is missing. */
            expose?: components["schemas"]["Expose"];
            /** @description Proxy for requests to the upstream, or `none`. If it is missing, that of the environment. */
            proxy?: string;
            /** @description True if the upstream may compress its responses. */
            compression?: boolean;
            /** @description True if the last health check, discovery or connection succeeded. Calls are attempted regardless. */
            available: boolean;
            /** @description Last error, and discovered entries that are not served. */
            statusMessage?: string;
            /** @description Server information from the upstream. */
            serverInfo?: {
                serverName: string;
                version: string;
                description?: string;
                websiteUrl?: string;
                capabilities: string[];
                extensions: string[];
                instructions?: string;
            };
            tools_discovered: number;
            resources_discovered: number;
            prompts_discovered: number;
        };
        /** @description A change of the availability of a forward, or the outcome of a discovery. */
        ForwardChange: {
            /** @constant */
            kind: "available";
            /**
             * Format: date-time
             * @description UTC
             */
            timestamp: string;
        } | {
            /** @constant */
            kind: "unavailable";
            /**
             * Format: date-time
             * @description UTC
             */
            timestamp: string;
            /** @description At most 500 characters */
            reason: string;
        } | {
            /** @constant */
            kind: "discovered";
            /**
             * Format: date-time
             * @description UTC
             */
            timestamp: string;
            /** @description Milliseconds */
            duration: number;
            /** @description Eras in which the upstream was discovered */
            eras: ("legacy" | "modern")[];
            tools: number;
            resources: number;
            prompts: number;
            /** @description Entries that were left out, and the like; at most 500 characters */
            notes?: string;
        } | {
            /** @constant */
            kind: "discovery_failed";
            /**
             * Format: date-time
             * @description UTC
             */
            timestamp: string;
            /** @description Milliseconds */
            duration: number;
            /** @description At most 500 characters */
            reason: string;
        };
        /** @description The availability of a forward changed, or it was discovered. */
        ForwardEvent: {
            name: string;
            change: components["schemas"]["ForwardChange"];
        };
        ForwardInput: {
            name: string;
            /**
             * Format: uri
             * @description HTTP or HTTPS URL of the upstream, without user name and password.
             */
            address: string;
            /** @description Namespace of the discovered entries (default `default`). Created if it does not exist. */
            namespace?: string;
            /** @description Labels. */
            labels?: {
                [key: string]: string;
            };
            /** @description Prefix for the names of discovered tools and prompts. */
            prefix?: string;
            /** @description Headers of all requests to the upstream. Values contain references to secrets: ${env:SERVICE_SECRET_NAME} for a variable of the service's environment, ${file:name} for a file in SERVICE_SECRETS_PATH. Only accept-language and user-agent may be literal. */
            headers?: {
                [key: string]: string;
            };
            /** @description Exposed entries (default: all). */
            expose?: components["schemas"]["ExposeInput"];
            /** @description URL of the HTTP proxy for requests to the upstream, without user name and password, or `none` (default: the proxy of the environment of the service). */
            proxy?: string;
            /** @description Whether the upstream may compress its responses with gzip, for slow connections (default: false). */
            compression?: boolean;
        };
        ForwardPatch: {
            /**
             * Format: uri
             * @description HTTP or HTTPS URL of the upstream. The discovered entries remain until its discovery has succeeded.
             */
            address?: string;
            /** @description Namespace of the discovered entries, except those that were moved. null: `default`. */
            namespace?: string | null;
            /** @description Labels to set, and with null to remove. null removes all. */
            labels?: {
                [key: string]: string | null;
            } | null;
            /** @description Prefix for the names of discovered tools and prompts, except renamed ones. null removes it. */
            prefix?: string | null;
            /** @description Headers to set, and with null to remove. null removes all. Required, if only as `{}`, when `address` moves a forward with headers to another origin. */
            headers?: {
                [key: string]: (string | null) | (string | null);
            } | null;
            /** @description Exposed entries. Takes effect at once, before they are discovered again. null: all. */
            expose?: components["schemas"]["ExposePatch"] | null;
            /** @description URL of the HTTP proxy for requests to the upstream, or `none`. null: the proxy of the environment. */
            proxy?: string | null;
            /** @description Whether the upstream may compress its responses. null: false. */
            compression?: boolean | null;
        };
        ForwardTest: {
            /** @description Address of the upstream, without its query. */
            address: string;
            /** @description Whether no step failed. */
            ok: boolean;
            /** @description All steps, in order. Those after a failed one are skipped. */
            steps: components["schemas"]["ForwardTestStep"][];
        };
        ForwardTestInput: {
            /** @description Name of a registered forward. */
            name?: string;
            /**
             * Format: uri
             * @description HTTP or HTTPS URL of an upstream that is not registered.
             */
            address?: string;
            /** @description Headers of all requests to `address`, as those of a forward. */
            headers?: {
                [key: string]: string;
            };
            /** @description URL of the HTTP proxy for requests to `address`, or `none`. */
            proxy?: string;
        };
        ForwardTestStep: {
            /** @enum {string} */
            step: "resolve" | "proxy" | "connect" | "tls" | "http" | "era" | "session" | "lists" | "ping";
            /** @enum {string} */
            status: "ok" | "warning" | "failed" | "skipped";
            /** @description Milliseconds. */
            duration: number;
            /** @description What was sent, at most 512 bytes. */
            sent?: string;
            /** @description What was received, at most 512 bytes. */
            received?: string;
            /** @description What was found. Of a failed step the same text as `statusMessage` of a forward, with the remedy. */
            message?: string;
            /** @description What to do about it. */
            remedy?: string;
        };
        Identity: {
            /**
             * @description Whether a request may have no credential.
             * @default allow
             * @enum {string}
             */
            anonymous: "allow" | "deny";
            /**
             * @description `anonymous: deny` covers the inference listener too.
             * @default false
             */
            inference: boolean;
            /** @description Headers of an authenticating proxy. */
            proxy?: {
                /**
                 * @description Ids and groups of this source have no prefix. At most one source.
                 * @default false
                 */
                bare: boolean;
                /** @description Peers whose headers are believed. */
                trusted: (string)[];
                /**
                 * @description Header with the id.
                 * @default x-forwarded-user
                 */
                user: string;
                /** @description Header with the groups, separated by commas. */
                groups?: string;
                /** @description Header that names the human across sources. */
                person?: string;
                /**
                 * @description Globs over the id: these are service accounts.
                 * @default []
                 */
                service_accounts: string[];
                /**
                 * @description Takes the headers alone, whatever credential comes with them.
                 * @default false
                 */
                ignore_authorization: boolean;
            };
            /**
             * @description Issuers of bearer tokens (JWT), which are verified here.
             * @default []
             */
            tokens: {
                /** @description Prefix of its ids and groups. */
                name: string;
                /**
                 * @description Ids and groups of this source have no prefix. At most one source.
                 * @default false
                 */
                bare: boolean;
                /**
                 * Format: uri
                 * @description Value of the claim `iss`, from whose metadata the keys are read.
                 */
                issuer: string;
                /**
                 * Format: uri
                 * @description Where the service itself reaches the issuer, if clients use another URL.
                 */
                upstream_issuer?: string;
                /** @description Where the keys are, instead of the metadata of the issuer. */
                jwks_url?: string | {
                    name: string;
                    text: string;
                };
                /** @description Certificates (PEM) that are trusted for the issuer, beside those of the system. */
                ca_file?: {
                    name: string;
                    text: string;
                };
                /**
                 * @description Audiences beside the URL of each endpoint, and the namespaces where they count.
                 * @default []
                 */
                audiences: {
                    value: string;
                    for: [
                        "*"
                    ] | string[];
                }[];
                /**
                 * @description Audiences of the management listener.
                 * @default []
                 */
                management_audiences: string[];
                /**
                 * @default [
                 *       "RS256",
                 *       "ES256",
                 *       "EdDSA",
                 *       "Ed25519"
                 *     ]
                 */
                algorithms: ("RS256" | "RS384" | "RS512" | "PS256" | "PS384" | "PS512" | "ES256" | "ES384" | "ES512" | "EdDSA" | "Ed25519")[];
                /**
                 * @description Longest time between `iat` and `exp`.
                 * @default 24
                 */
                max_lifetime_hours: number;
                /**
                 * @description Claim with the id: its name, or a path with dots.
                 * @default sub
                 */
                user: string;
                /**
                 * @description Claims with groups.
                 * @default []
                 */
                groups: string[];
                /** @description Claim that names the human across sources. */
                person?: string;
                /** @description Tokens in which a value of the claim matches one of these globs are those of service accounts. */
                service_account?: {
                    claim: string;
                    values: string[];
                };
                /** @description Public client with which people sign in to console and CLI. At most one issuer. */
                sign_in?: {
                    client_id: string;
                    /**
                     * @default [
                     *       "openid",
                     *       "profile",
                     *       "email"
                     *     ]
                     */
                    scopes: string[];
                    /**
                     * @description When a sign-in ends, however often it is used.
                     * @default 12
                     */
                    max_hours: number;
                };
            }[];
            /**
             * @description Service accounts with a long random key.
             * @default []
             */
            keys: {
                /** @description Id of the service account. */
                name: string;
                /** @description Hash of the key; two while it is exchanged. `sluice keys create` prints key and hash. */
                sha256: string[];
                /** @default [] */
                groups: string[];
                /**
                 * @description Namespaces where it counts.
                 * @default [
                 *       "*"
                 *     ]
                 */
                for: [
                    "*"
                ] | string[];
                /**
                 * @description Whether it counts on the management listener.
                 * @default false
                 */
                management: boolean;
                /**
                 * Format: date
                 * @description Last day on which it counts, in UTC.
                 */
                expires?: string;
            }[];
            /** @description Groups with a role on the management listener; `*` is every authenticated principal. */
            roles?: {
                admin?: string[];
                operator?: string[];
                auditor?: string[];
                viewer?: string[];
            };
        };
        IdentityChange: {
            identity: components["schemas"]["IdentityInput"];
            /** @description Expected active revision; CONFLICT if it differs. 0 expects none. */
            expected_revision?: number;
        };
        IdentityInput: {
            /**
             * @description Whether a request may have no credential.
             * @default allow
             * @enum {string}
             */
            anonymous?: "allow" | "deny";
            /**
             * @description `anonymous: deny` covers the inference listener too.
             * @default false
             */
            inference?: boolean;
            /** @description Headers of an authenticating proxy. */
            proxy?: {
                /**
                 * @description Ids and groups of this source have no prefix. At most one source.
                 * @default false
                 */
                bare?: boolean;
                /** @description Peers whose headers are believed. */
                trusted: (string)[];
                /**
                 * @description Header with the id.
                 * @default x-forwarded-user
                 */
                user?: string;
                /** @description Header with the groups, separated by commas. */
                groups?: string;
                /** @description Header that names the human across sources. */
                person?: string;
                /**
                 * @description Globs over the id: these are service accounts.
                 * @default []
                 */
                service_accounts?: string[];
                /**
                 * @description Takes the headers alone, whatever credential comes with them.
                 * @default false
                 */
                ignore_authorization?: boolean;
            };
            /** @description Issuers of bearer tokens (JWT), which are verified here. */
            tokens?: {
                /** @description Prefix of its ids and groups. */
                name: string;
                /**
                 * @description Ids and groups of this source have no prefix. At most one source.
                 * @default false
                 */
                bare?: boolean;
                /**
                 * Format: uri
                 * @description Value of the claim `iss`, from whose metadata the keys are read.
                 */
                issuer: string;
                /**
                 * Format: uri
                 * @description Where the service itself reaches the issuer, if clients use another URL.
                 */
                upstream_issuer?: string;
                /** @description Where the keys are, instead of the metadata of the issuer. */
                jwks_url?: string | {
                    name: string;
                    text: string;
                };
                /** @description Certificates (PEM) that are trusted for the issuer, beside those of the system. */
                ca_file?: {
                    name: string;
                    text: string;
                };
                /**
                 * @description Audiences beside the URL of each endpoint, and the namespaces where they count.
                 * @default []
                 */
                audiences?: {
                    value: string;
                    for: [
                        "*"
                    ] | string[];
                }[];
                /**
                 * @description Audiences of the management listener.
                 * @default []
                 */
                management_audiences?: string[];
                /**
                 * @default [
                 *       "RS256",
                 *       "ES256",
                 *       "EdDSA",
                 *       "Ed25519"
                 *     ]
                 */
                algorithms?: ("RS256" | "RS384" | "RS512" | "PS256" | "PS384" | "PS512" | "ES256" | "ES384" | "ES512" | "EdDSA" | "Ed25519")[];
                /** @description Longest time between `iat` and `exp`. */
                max_lifetime_hours?: number;
                /**
                 * @description Claim with the id: its name, or a path with dots.
                 * @default sub
                 */
                user?: string;
                /**
                 * @description Claims with groups.
                 * @default []
                 */
                groups?: string[];
                /** @description Claim that names the human across sources. */
                person?: string;
                /** @description Tokens in which a value of the claim matches one of these globs are those of service accounts. */
                service_account?: {
                    claim: string;
                    values: string[];
                };
                /** @description Public client with which people sign in to console and CLI. At most one issuer. */
                sign_in?: {
                    client_id: string;
                    /**
                     * @default [
                     *       "openid",
                     *       "profile",
                     *       "email"
                     *     ]
                     */
                    scopes?: string[];
                    /** @description When a sign-in ends, however often it is used. */
                    max_hours?: number;
                };
            }[];
            /**
             * @description Service accounts with a long random key.
             * @default []
             */
            keys?: {
                /** @description Id of the service account. */
                name: string;
                /** @description Hash of the key; two while it is exchanged. `sluice keys create` prints key and hash. */
                sha256: string[];
                /** @default [] */
                groups?: string[];
                /**
                 * @description Namespaces where it counts.
                 * @default [
                 *       "*"
                 *     ]
                 */
                for?: [
                    "*"
                ] | string[];
                /**
                 * @description Whether it counts on the management listener.
                 * @default false
                 */
                management?: boolean;
                /**
                 * Format: date
                 * @description Last day on which it counts, in UTC.
                 */
                expires?: string;
            }[];
            /** @description Groups with a role on the management listener; `*` is every authenticated principal. */
            roles?: {
                admin?: string[];
                operator?: string[];
                auditor?: string[];
                viewer?: string[];
            };
        };
        IdentityRevision: {
            /** @description Revision number, from 1. */
            id: number;
            /**
             * Format: date-time
             * @description UTC
             */
            created_at: string;
            /**
             * Format: date-time
             * @description UTC; omitted if never active.
             */
            activated_at?: string;
            /** @enum {string} */
            status: "active" | "superseded" | "rejected";
            /** @description Checksum of the content. */
            checksum: string;
            /**
             * @description Source of the revision: bootstrap file or API.
             * @enum {string}
             */
            origin: "startup" | "api";
            /** @description Id of the caller. */
            actor?: string;
            /** @description Reason for the rejection. */
            failure_reason?: string;
        };
        IdentityRevisionContent: {
            /** @description Revision number, from 1. */
            id: number;
            /**
             * Format: date-time
             * @description UTC
             */
            created_at: string;
            /**
             * Format: date-time
             * @description UTC; omitted if never active.
             */
            activated_at?: string;
            /** @enum {string} */
            status: "active" | "superseded" | "rejected";
            /** @description Checksum of the content. */
            checksum: string;
            /**
             * @description Source of the revision: bootstrap file or API.
             * @enum {string}
             */
            origin: "startup" | "api";
            /** @description Id of the caller. */
            actor?: string;
            /** @description Reason for the rejection. */
            failure_reason?: string;
            identity: components["schemas"]["Identity"];
        };
        IdentityStatus: {
            /** @description Active revision; 0 if there is none. */
            revision: number;
            /** @description What the settings allow, although most do not want it. */
            warnings: {
                path: string;
                message: string;
            }[];
            /** @description Keys of service accounts, in the order of the settings. */
            keys: components["schemas"]["ServiceKeyStatus"][];
        };
        InferenceConfig: {
            /** @description Upstream of new requests */
            upstream: string;
            /** @description Maximum number of stored interactions */
            capacity: number;
        };
        Interaction: {
            /** @description Arrival time of the request, in milliseconds since the Unix epoch */
            epoch_ms: number;
            /** @description Request path without the query string */
            path: string;
            /** @description Request header `x-conversation-id`, or else `x-request-id` */
            conversation_id?: string;
            /** @description `id` of the response */
            completion_id?: string;
            /** @description `model` of the response */
            model?: string;
            /** @description JSON value, string or null; omitted with `?bodies=false` */
            request_body?: unknown;
            /** @description JSON value, string or null; omitted with `?bodies=false`. The chunks of a streamed completion are assembled */
            response_body?: unknown;
            /** @description HTTP status; 0 if the exchange ended before a response */
            status_code: number;
            /** @description Time until the response ended or the client disconnected, in milliseconds */
            duration_ms: number;
            /**
             * @description The request body was truncated to 4 MiB, or evicted from memory
             * @constant
             */
            request_truncated?: true;
            /**
             * @description The response body was truncated to 4 MiB, or evicted from memory
             * @constant
             */
            response_truncated?: true;
        };
        ListedEvaluator: {
            name: string;
            trigger: {
                method: string;
                /** @description Namespace of matching requests; null matches all namespaces. */
                namespace: string | null;
            };
            llm: {
                /** @enum {string} */
                operation: "classify" | "filter" | "augment";
                /** @description Omitted for callers without the right `read_bodies`. */
                prompt?: string;
                connection: string;
                result_schema: {
                    [key: string]: unknown;
                } | null;
            };
            processor: {
                /** @description Path of the action, as submitted. */
                path: string;
            };
            /** @enum {string} */
            on_error: "continue" | "block";
        };
        /** @description Fields of the event are further members. */
        LogLine: {
            /**
             * Format: date-time
             * @description UTC
             */
            ts: string;
            /** @enum {string} */
            level: "error" | "warn" | "info" | "debug" | "trace";
            /** @description Component */
            target: string;
            msg: string;
            /**
             * @description The line was too long to be stored with its fields
             * @constant
             */
            truncated?: true;
        } & {
            [key: string]: unknown;
        };
        Metrics: {
            /** @description Filter counters by filter name, in chain order; those of `service_methods` by filter and method (`service_methods ping`) */
            filters: {
                [key: string]: components["schemas"]["FilterMetrics"];
            };
            /** @description Evaluator counters by evaluator name */
            evaluators: {
                [key: string]: components["schemas"]["EvaluatorMetrics"];
            };
            /** @description Trigger counters; `skipped_*` counts evaluations skipped for lack of that input */
            pipeline: {
                trigger_matches: number;
                trigger_misses: number;
                skipped_no_method: number;
                skipped_no_state: number;
                skipped_no_match: number;
                skipped_no_registry: number;
                skipped_no_interactions: number;
            };
            /** @description Current values */
            gauges: {
                evaluators_loaded: number;
                /** @description Evaluators that could not be loaded and do not run */
                evaluators_skipped: number;
                wasm_compiled: number;
                namespace_bindings: number;
            };
            /** @description Host processes, which run actions; missing in earlier versions */
            hosts?: {
                /** @description With a run, or loading an action */
                running: number;
                idle: number;
                /** @description Replaces one that is killed */
                spare: number;
                /** @description Runs that wait for a host */
                waiting: number;
                /** @description Since the process started */
                started: number;
                /** @description Ended since the process started: over a limit, crashed, or replaced */
                ended: number;
            };
        };
        /** @description Events were skipped: the client was too slow, or resumes after more events than are stored or after a restart of the service. */
        MissedEvents: {
            /** @description Topics of which events are missing */
            topics: ("tool-calls" | "tasks" | "forwards" | "services" | "evaluators" | "registry")[];
            /** @description Number of missing events; omitted if it is unknown */
            count?: number;
        };
        Namespace: {
            name: string;
            labels: {
                [key: string]: string;
            };
            /** @description URL of the MCP endpoint for clients, if SERVICE_PUBLIC_URL is set. */
            mcpUrl?: string;
        };
        NamespaceInput: {
            /** @description Path segment of the MCP endpoint. Alias: `path`. */
            name: string;
            /** @description Labels. */
            labels?: {
                [key: string]: string;
            };
        };
        NamespaceUpdate: {
            /** @description Ignored. */
            name?: string;
            /** @description Labels. An update replaces all of them. */
            labels?: {
                [key: string]: string;
            };
        };
        PageInfo: {
            /** @description `cursor` of the next page; missing on the last one. */
            next?: string;
            /** @description Number of matching elements on all pages. */
            total: number;
        };
        PluginManifest: {
            /** @description Segment of the paths of the plugin. */
            id: string;
            name: string;
            version: string;
            /** @description ES module in the folder of the plugin. */
            entrypoint: string;
            /** @description Stylesheets, loaded before the module. */
            styles?: string[];
            requires?: {
                /** @description Semver range of the host API. */
                hostApi?: string;
                /** @description Services that the plugin calls, configured under `plugins` of the bootstrap file. */
                services?: {
                    id: string;
                    version?: string;
                }[];
            };
            /** @description What the plugin uses; everything if omitted. */
            permissions?: string[];
        } & {
            [key: string]: unknown;
        };
        Prompt: {
            name: string;
            description: string;
            arguments: unknown[];
            messages: ({
                /** @enum {string} */
                role: "user" | "assistant" | "system";
                content: string | {
                    [key: string]: unknown;
                };
            } & {
                [key: string]: unknown;
            })[];
            /** @description Name on the upstream, if different. Read-only. */
            upstreamName?: string;
            namespace: string;
            labels: {
                [key: string]: string;
            };
            /** @description Whether MCP clients and actions find the entry. */
            enabled: boolean;
            /** @description Configuration reference passed to the capability service. */
            configurationURI?: string;
            /** @description Operator-defined identifier. */
            id?: string;
            /** @description Forward that discovered the entry. Read-only. */
            forward?: string;
            /**
             * @description The entry is not served, because another entry has the same key. Read-only.
             * @constant
             */
            shadowed?: true;
        } & {
            [key: string]: unknown;
        };
        PromptInput: {
            name: string;
            description?: string;
            /** @description Display name. */
            title?: string;
            /** @description MCP icons. */
            icons?: ({
                src: string;
                mimeType?: string;
                sizes?: string[];
                /** @enum {string} */
                theme?: "light" | "dark";
            } & {
                [key: string]: unknown;
            })[];
            /** @description MCP metadata. */
            _meta?: {
                [key: string]: unknown;
            };
            /** @description Arguments of the template. */
            arguments?: ({
                name: string;
                description?: string;
                required?: boolean;
            } & {
                [key: string]: unknown;
            })[];
            /** @description Messages; `{name}` is replaced by the value of that argument. Empty for discovered prompts, which the upstream renders. */
            messages?: ({
                /** @enum {string} */
                role: "user" | "assistant" | "system";
                content: string | {
                    [key: string]: unknown;
                };
            } & {
                [key: string]: unknown;
            })[];
            /** @description Namespace of the entry (default `default`). Created if it does not exist. */
            namespace?: string;
            /** @description Labels. An update replaces all of them. */
            labels?: {
                [key: string]: string;
            };
            /** @description Default `true`. MCP clients and actions do not find a disabled entry, which keeps its key. An update without it changes nothing. */
            enabled?: boolean;
            /** @description Configuration reference passed to the capability service. */
            configurationURI?: string;
            /** @description Operator-defined identifier. */
            id?: string;
        } & {
            [key: string]: unknown;
        };
        PromptUpdate: {
            name?: string;
            description?: string;
            /** @description Display name. */
            title?: string;
            /** @description MCP icons. */
            icons?: ({
                src: string;
                mimeType?: string;
                sizes?: string[];
                /** @enum {string} */
                theme?: "light" | "dark";
            } & {
                [key: string]: unknown;
            })[];
            /** @description MCP metadata. */
            _meta?: {
                [key: string]: unknown;
            };
            /** @description Arguments of the template. */
            arguments?: ({
                name: string;
                description?: string;
                required?: boolean;
            } & {
                [key: string]: unknown;
            })[];
            /** @description Messages; `{name}` is replaced by the value of that argument. Empty for discovered prompts, which the upstream renders. */
            messages?: ({
                /** @enum {string} */
                role: "user" | "assistant" | "system";
                content: string | {
                    [key: string]: unknown;
                };
            } & {
                [key: string]: unknown;
            })[];
            /** @description Namespace of the entry (default `default`). Created if it does not exist. */
            namespace?: string;
            /** @description Labels. An update replaces all of them. */
            labels?: {
                [key: string]: string;
            };
            /** @description Default `true`. MCP clients and actions do not find a disabled entry, which keeps its key. An update without it changes nothing. */
            enabled?: boolean;
            /** @description Configuration reference passed to the capability service. */
            configurationURI?: string;
            /** @description Operator-defined identifier. */
            id?: string;
        } & {
            [key: string]: unknown;
        };
        ProvisionInput: {
            /** @description Name under which configuration and secrets are stored. */
            name: string;
            /**
             * @description Configuration data.
             * @default
             */
            configuration?: string;
            /**
             * @description Secrets. Passed to the capability service and not stored by Sluice.
             * @default
             */
            secrets?: string;
            /**
             * @description Provisioning target, interpreted by the capability service.
             * @default
             */
            uri?: string;
        };
        Provisioned: {
            /** @description Value for the `configurationURI` of a tool or resource. */
            configurationUri: string;
            /** @description Value for the `secretsURI` of a tool or resource. */
            secretUri: string;
            /** @description Configuration properties of the service, by name. */
            properties: {
                [key: string]: {
                    type: string;
                    description: string;
                    required: boolean;
                };
            };
        };
        Readiness: {
            /** @constant */
            status: "ready";
            /** @description Names of the evaluators that could not be loaded and do not run; omitted if there are none */
            skipped_evaluators?: string[];
            /**
             * @description The last known state is served and cannot be changed; omitted otherwise
             * @constant
             */
            database?: "unreachable";
        };
        Refreshed: {
            refreshed: string;
            tools_discovered: number;
            resources_discovered: number;
            prompts_discovered: number;
        };
        /** @description The registry changed. Changes in quick succession are combined. Unchanged members are omitted. */
        RegistryEvent: {
            /**
             * Format: date-time
             * @description UTC
             */
            timestamp: string;
            /** @description Namespaces that were added, changed or deleted */
            namespaces?: string[];
            /** @description Forwards that were added, changed or deleted */
            forwards?: string[];
            /** @description Capability services that were added, changed or deleted */
            services?: string[];
            /** @description Namespaces whose tools changed */
            tools?: string[];
            /** @description Namespaces whose resources changed */
            resources?: string[];
            /** @description Namespaces whose prompts changed */
            prompts?: string[];
            /**
             * @description More than 100 names of one kind; the rest is left out
             * @constant
             */
            truncated?: true;
        };
        Removed: {
            removed: string;
        };
        RemovedNamespace: {
            removed: string;
            /** @description Discovered entries that had been moved to the namespace: now disabled in the namespace of their forward. */
            disabled?: {
                /** @enum {string} */
                kind: "tool" | "resource" | "prompt";
                name: string;
                namespace: string;
                forward: string;
            }[];
        };
        Replica: {
            /** @description Of the process: another one after a restart. */
            id: string;
            /** @description Whether this replica has answered the request. */
            self: boolean;
            version: string;
            /** Format: date-time */
            startedAt: string;
            /** @description Whether it has renewed its lease in time. It is listed for ten minutes longer. */
            live: boolean;
            /** @description Commits that it has not confirmed; it does so at least once a second. */
            lag: number;
            /** @description Processors that it used on average since it last renewed its lease: 0.5 is half of one. */
            load: number;
            /** @description Forwards that it discovers and checks for all replicas. */
            forwards: number;
        };
        Resource: {
            name: string;
            location: string;
            type: string;
            description: string;
            mimeType: string;
            params?: {
                name: string;
                value: string;
            }[];
            /** @description Secrets reference passed to the capability service. */
            secretsURI?: string;
            namespace: string;
            labels: {
                [key: string]: string;
            };
            /** @description Whether MCP clients and actions find the entry. */
            enabled: boolean;
            /** @description Configuration reference passed to the capability service. */
            configurationURI?: string;
            /** @description Operator-defined identifier. */
            id?: string;
            /** @description Forward that discovered the entry. Read-only. */
            forward?: string;
            /**
             * @description The entry is not served, because another entry has the same key. Read-only.
             * @constant
             */
            shadowed?: true;
        } & {
            [key: string]: unknown;
        };
        ResourceInput: {
            name: string;
            /** @description MCP URI or URI template, unique in the namespace. Alias: `uri`. */
            location: string;
            /** @description Type label; `mcp-forward` for discovered resources. */
            type: string;
            description?: string;
            /** @description Alias: `mime_type`. */
            mimeType?: string;
            /** @description Display name. */
            title?: string;
            /** @description MCP icons. */
            icons?: ({
                src: string;
                mimeType?: string;
                sizes?: string[];
                /** @enum {string} */
                theme?: "light" | "dark";
            } & {
                [key: string]: unknown;
            })[];
            /** @description MCP metadata. */
            _meta?: {
                [key: string]: unknown;
            };
            /** @description MCP annotations. */
            annotations?: {
                audience?: ("user" | "assistant")[];
                priority?: number;
                /** Format: date-time */
                lastModified?: string;
            } & {
                [key: string]: unknown;
            };
            /** @description Size in bytes. */
            size?: number;
            /** @description Parameters passed to the capability service on each acquisition. */
            params?: {
                name: string;
                value: string;
            }[];
            /** @description Secrets reference passed to the capability service. */
            secretsURI?: string;
            /** @description Namespace of the entry (default `default`). Created if it does not exist. */
            namespace?: string;
            /** @description Labels. An update replaces all of them. */
            labels?: {
                [key: string]: string;
            };
            /** @description Default `true`. MCP clients and actions do not find a disabled entry, which keeps its key. An update without it changes nothing. */
            enabled?: boolean;
            /** @description Configuration reference passed to the capability service. */
            configurationURI?: string;
            /** @description Operator-defined identifier. */
            id?: string;
        } & {
            [key: string]: unknown;
        };
        ResourceUpdate: {
            name?: string;
            /** @description MCP URI or URI template, unique in the namespace. Alias: `uri`. */
            location: string;
            /** @description Type label; `mcp-forward` for discovered resources. */
            type: string;
            description?: string;
            /** @description Alias: `mime_type`. */
            mimeType?: string;
            /** @description Display name. */
            title?: string;
            /** @description MCP icons. */
            icons?: ({
                src: string;
                mimeType?: string;
                sizes?: string[];
                /** @enum {string} */
                theme?: "light" | "dark";
            } & {
                [key: string]: unknown;
            })[];
            /** @description MCP metadata. */
            _meta?: {
                [key: string]: unknown;
            };
            /** @description MCP annotations. */
            annotations?: {
                audience?: ("user" | "assistant")[];
                priority?: number;
                /** Format: date-time */
                lastModified?: string;
            } & {
                [key: string]: unknown;
            };
            /** @description Size in bytes. */
            size?: number;
            /** @description Parameters passed to the capability service on each acquisition. */
            params?: {
                name: string;
                value: string;
            }[];
            /** @description Secrets reference passed to the capability service. */
            secretsURI?: string;
            /** @description Namespace of the entry (default `default`). Created if it does not exist. */
            namespace?: string;
            /** @description Labels. An update replaces all of them. */
            labels?: {
                [key: string]: string;
            };
            /** @description Default `true`. MCP clients and actions do not find a disabled entry, which keeps its key. An update without it changes nothing. */
            enabled?: boolean;
            /** @description Configuration reference passed to the capability service. */
            configurationURI?: string;
            /** @description Operator-defined identifier. */
            id?: string;
        } & {
            [key: string]: unknown;
        };
        Service: {
            name: string;
            host: string;
            port: number;
            address: string;
            /** @enum {string} */
            serviceType: "tool-invoker" | "resource-provider" | "multi-capability" | "code-execution-engine";
            serviceSubType?: string;
            languageName?: string;
            labels: {
                [key: string]: string;
            };
            id?: string;
            /**
             * @description Result of the last health probe; `pending` before the first.
             * @enum {string}
             */
            health: "pending" | "healthy" | "unhealthy" | "down";
        };
        /** @description The health of a capability service changed. */
        ServiceEvent: {
            /**
             * Format: date-time
             * @description UTC
             */
            timestamp: string;
            name: string;
            serviceType: string;
            serviceSubType?: string;
            languageName?: string;
            /** @enum {string} */
            health: "pending" | "healthy" | "unhealthy" | "down";
            /** @description Why the service is not healthy, at most 500 characters */
            reason?: string;
        };
        ServiceInput: {
            /** @description Alias: `serviceName`. */
            name: string;
            /** @description `host:port`, an IPv6 address in brackets. Required unless `host` and `port` are set. */
            address?: string;
            /** @description Host name or IP address; an IPv6 address without brackets. Must match `address` if both are set. */
            host?: string | unknown | unknown;
            /** @description Port. Must match `address` if both are set. */
            port?: number;
            /**
             * @description Alias: `service_type`.
             * @enum {string}
             */
            serviceType: "tool-invoker" | "resource-provider" | "multi-capability" | "code-execution-engine";
            /** @description Engine of a code-execution engine. */
            serviceSubType?: string;
            /** @description Language of a code-execution engine. */
            languageName?: string;
            /** @description Labels. */
            labels?: {
                [key: string]: string;
            };
            id?: string;
        } | unknown | unknown;
        ServiceKeyStatus: {
            /** @description Id of the service account. */
            name: string;
            groups: string[];
            /** @description Namespaces where it counts; `*` is all of them. */
            for: string[];
            /** @description Whether it counts on the management listener. */
            management: boolean;
            /**
             * Format: date-time
             * @description From when on it is rejected. Missing if it does not expire.
             */
            expiresAt?: string;
            /** @description One, or two while the key is exchanged. */
            hashes: {
                sha256: string;
                /**
                 * Format: date-time
                 * @description Missing if this replica has not seen it since its start.
                 */
                lastUsedAt?: string;
            }[];
        };
        Session: {
            /** @description The caller; anonymous if its credential is not accepted. */
            principal: {
                /** @enum {string} */
                kind: "anonymous" | "user" | "service_account";
                /** @description Empty if anonymous. */
                id: string;
                /** @description What has proved it: `proxy`, `keys` or the name of a token issuer; empty if anonymous. */
                source: string;
                /** @description The human behind it, across sources. */
                person?: string;
                groups: string[];
            };
            /** @description What it may do here. */
            rights: ("read" | "read_bodies" | "change_registry" | "administer")[];
            /** @description Why its credential is not accepted. Missing without one. */
            rejected?: string;
            /** @description The sign-in that the cookie of the request proves. Missing without one. */
            signIn?: {
                /**
                 * Format: date-time
                 * @description When it ends.
                 */
                expiresAt: string;
            };
            /** @description How people can sign in. */
            offer: {
                /** @description Issuer of tokens for people. Missing if none has `sign_in`. */
                issuer?: string;
                /** @description Its public client. Missing if none has `sign_in`. */
                clientId?: string;
                /** @description Scopes to request there. */
                scopes: string[];
                /** @description Where a browser signs in here; with `return_to`, it is led back there. Missing if it cannot. */
                url?: string;
                /** @description Why a browser cannot sign in here. */
                reason?: string;
            };
        };
        SignInSession: {
            /** @description Not the value of its cookie. */
            id: string;
            principal: {
                /** @enum {string} */
                kind: "user" | "service_account";
                id: string;
                source: string;
            };
            person?: string;
            /** @description It is that of the request. */
            current: boolean;
            /** Format: date-time */
            signedInAt: string;
            /**
             * Format: date-time
             * @description When its issuer has last confirmed it.
             */
            refreshedAt: string;
            /** Format: date-time */
            expiresAt: string;
        };
        SignOutResult: {
            signedOut: boolean;
        };
        StateChange: {
            /** @enum {string} */
            action: "create" | "update" | "delete";
            /** @enum {string} */
            kind: "namespace" | "forward" | "service" | "tool" | "evaluator" | "identity";
            /** @description Its name before the change. */
            name: string;
            /** @description Of a tool, before the change. */
            namespace?: string;
            /** @description Of a discovered tool. */
            forward?: string;
            /** @description Of a discovered tool. */
            upstreamName?: string;
            serviceType?: string;
            serviceSubType?: string;
            languageName?: string;
            /** @description What is deleted with a namespace. */
            contents?: {
                tools: number;
                resources: number;
                prompts: number;
                forwards: number;
            };
            /** @description Changed members; empty for deletions. */
            members: {
                member: string;
                /** @description Missing if the member is new. */
                from?: unknown;
                /** @description Missing if the member is removed. */
                to?: unknown;
            }[];
            /** @description How the change widens the reach of agents. */
            widens?: string[];
            notes: string[];
        };
        StateForward: {
            name: string;
            /**
             * Format: uri
             * @description HTTP or HTTPS URL of the upstream, without user name and password.
             */
            address: string;
            /** @description Namespace of the discovered entries (default `default`). Created if it does not exist. */
            namespace?: string;
            /** @description Labels. */
            labels?: {
                [key: string]: string;
            };
            /** @description Prefix for the names of discovered tools and prompts. */
            prefix?: string;
            /** @description Headers to set, and with null to remove; others stay unchanged. null removes all. Required, if only as `{}`, when `address` moves a forward with headers to another origin. */
            headers?: {
                [key: string]: (string | null) | (string | null);
            } | null;
            /** @description Exposed entries: missing members stay unchanged, null removes rules. */
            expose?: components["schemas"]["ExposePatch"] | null;
            /** @description URL of the HTTP proxy for requests to the upstream, without user name and password, or `none` (default: the proxy of the environment of the service). */
            proxy?: string;
            /** @description Whether the upstream may compress its responses with gzip, for slow connections (default: false). */
            compression?: boolean;
        };
        StateInput: {
            namespaces?: components["schemas"]["NamespaceInput"][];
            forwards?: components["schemas"]["StateForward"][];
            services?: components["schemas"]["ServiceInput"][];
            /** @description Manually registered tools and, with `forward`, overrides of discovered tools. */
            tools?: (components["schemas"]["ToolOverrides"] | components["schemas"]["ToolInput"])[];
            /** @description Evaluators in order of execution. */
            evaluators?: components["schemas"]["EvaluatorInput"][];
            /** @description Who may call, and their roles; all of it. */
            identity?: components["schemas"]["IdentityInput"];
        };
        StateResult: {
            changes: components["schemas"]["StateChange"][];
        };
        Statistics: {
            toolsCount: number;
            resourcesCount: number;
            promptsCount: number;
            forwardsCount: number;
            /** @constant */
            dataStoresCount: 0;
        };
        /** @description A long call: the client polls its state and, at the end, its result. */
        Task: {
            /** @description Id under which the client knows the task */
            id: string;
            namespace: string;
            /** @description Name of the called tool */
            tool: string;
            /** @description Forward that executes the task */
            forward?: string;
            /** @description User reported by the authenticating proxy */
            user?: string;
            /**
             * @description `core`: a task of 2025-11-25; `extension`: one of the extension; `call`: a call that became a task
             * @enum {string}
             */
            kind: "core" | "extension" | "call";
            /**
             * @description Belongs to the call of a client that does not support tasks, which waits for it
             * @constant
             */
            internal?: true;
            /** @enum {string} */
            status: "working" | "input_required" | "completed" | "failed" | "cancelled";
            /** @description Of the upstream, at most 1000 characters */
            statusMessage?: string;
            /** @description The latest states that became known, oldest first */
            states: {
                /** @enum {string} */
                status: "working" | "input_required" | "completed" | "failed" | "cancelled";
                /**
                 * Format: date-time
                 * @description UTC
                 */
                timestamp: string;
            }[];
            /**
             * Format: date-time
             * @description UTC
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description When its upstream last reported another state
             */
            lastUpdatedAt: string;
            /**
             * Format: date-time
             * @description When it is removed, whatever its state
             */
            expiresAt: string;
            /** @description Id of the tool-call events of its call */
            eventId?: string;
        };
        /** @description A task was created, has another status, or has ended. */
        TaskEvent: {
            /**
             * Format: date-time
             * @description UTC
             */
            timestamp: string;
            id: string;
            namespace: string;
            tool: string;
            forward?: string;
            /** @enum {string} */
            status: "working" | "input_required" | "completed" | "failed" | "cancelled";
            /** @description Of the upstream, at most 1000 characters */
            statusMessage?: string;
            /**
             * @description How its end became known, once it has ended
             * @enum {string}
             */
            end?: "polled" | "notified" | "returned" | "cancelled" | "expired" | "discarded";
            /** @description Id of the tool-call events of its call */
            eventId?: string;
        };
        TimeSeries: {
            /**
             * Format: date-time
             * @description Begin of the first step, UTC
             */
            since: string;
            /** @description Seconds */
            step: number;
            /** @description The process; null before its start and for the current step */
            service: {
                /** @description Completions that were recorded */
                completions: (number | null)[];
                /** @description 99th percentile of the delay of timers */
                event_loop_delay_ms: (number | null)[];
                /** @description Resident memory of the process at the end of the step */
                rss_bytes: (number | null)[];
                /** @description Used memory of the JavaScript heap at the end of the step */
                heap_bytes: (number | null)[];
            };
            /** @description One without `by`, else the busiest first */
            series: components["schemas"]["CallSeries"][];
        };
        Tool: {
            name: string;
            description: string;
            uri: string;
            toolType: string;
            input_schema: {
                [key: string]: unknown;
            };
            /** @description Secrets reference passed to the capability service. */
            secretsURI?: string;
            /** @description Name on the upstream, if different. Read-only. */
            upstreamName?: string;
            namespace: string;
            labels: {
                [key: string]: string;
            };
            /** @description Whether MCP clients and actions find the entry. */
            enabled: boolean;
            /** @description Configuration reference passed to the capability service. */
            configurationURI?: string;
            /** @description Operator-defined identifier. */
            id?: string;
            /** @description Forward that discovered the entry. Read-only. */
            forward?: string;
            /**
             * @description The entry is not served, because another entry has the same key. Read-only.
             * @constant
             */
            shadowed?: true;
        } & {
            [key: string]: unknown;
        };
        /** @description Start, completion or failure of a tool call. A call that fails before it starts has only a FAILED event. */
        ToolCallEvent: {
            /**
             * Format: uuid
             * @description Shared by the STARTED event of a call and its terminal event
             */
            eventId: string;
            /** @constant */
            eventType: "STARTED";
            /**
             * Format: date-time
             * @description UTC
             */
            timestamp: string;
            /** @enum {string} */
            transport: "mcp" | "grpc" | "code";
            namespace: string;
            /** @description Tool name; `code-execution/{engine}/{language}` for code */
            toolName: string;
            toolType: string;
            /** @description Forward that the tool was discovered from */
            forward?: string;
            /** @description Name of the capability service */
            serviceId?: string;
            /** @description `host:port` of the capability service, or origin of the upstream; empty if there is none */
            serviceAddress: string;
            conversationId?: string;
            /** @description Request header `x-request-id` of the call */
            requestId?: string;
            /**
             * @description The call was made through the MCP endpoint of the management listener
             * @constant
             */
            via?: "console";
            /** @description User reported by the authenticating proxy, at most 256 characters */
            user?: string;
            /** @description Evaluations that the call has passed, in order; omitted if there were none */
            evaluations?: {
                evaluator: string;
                /** @enum {string} */
                verdict: "pass" | "warn" | "filter_tools" | "set_metadata" | "llm_failure" | "action_failure";
                /** @description Milliseconds */
                duration: number;
            }[];
            /** @description Argument names, at most 100, without credentials (`service_auth_`); omitted for code */
            argumentNames?: string[];
            /** @description Number of arguments */
            argumentCount: number;
            /** @description Names of the headers added by the arguments or the request, at most 100 */
            headers: {
                [key: string]: "[REDACTED]";
            };
            /**
             * @description Present for code execution
             * @constant
             */
            body?: "[CODE]";
        } | {
            /**
             * Format: uuid
             * @description Shared by the STARTED event of a call and its terminal event
             */
            eventId: string;
            /** @constant */
            eventType: "COMPLETED";
            /**
             * Format: date-time
             * @description UTC
             */
            timestamp: string;
            /** @enum {string} */
            transport: "mcp" | "grpc" | "code";
            namespace: string;
            /** @description Tool name; `code-execution/{engine}/{language}` for code */
            toolName: string;
            toolType: string;
            /** @description Forward that the tool was discovered from */
            forward?: string;
            /** @description Name of the capability service */
            serviceId?: string;
            /** @description `host:port` of the capability service, or origin of the upstream; empty if there is none */
            serviceAddress: string;
            conversationId?: string;
            /** @description Request header `x-request-id` of the call */
            requestId?: string;
            /**
             * @description The call was made through the MCP endpoint of the management listener
             * @constant
             */
            via?: "console";
            /** @description User reported by the authenticating proxy, at most 256 characters */
            user?: string;
            /** @description Evaluations that the call has passed, in order; omitted if there were none */
            evaluations?: {
                evaluator: string;
                /** @enum {string} */
                verdict: "pass" | "warn" | "filter_tools" | "set_metadata" | "llm_failure" | "action_failure";
                /** @description Milliseconds */
                duration: number;
            }[];
            /** @enum {string} */
            outcome: "completed" | "tool_error";
            /** @description The tool reported an error */
            isError: boolean;
            /** @description Text contents of the result, 16 KiB at most */
            content: string[];
            /**
             * @description The content was truncated
             * @constant
             */
            contentTruncated?: true;
            /** @description Milliseconds */
            duration: number;
            /** @description The task that continued the call */
            task?: {
                id: string;
                /**
                 * @description How its end became known; omitted for a call that became a task
                 * @enum {string}
                 */
                end?: "polled" | "notified" | "returned" | "cancelled" | "expired" | "discarded";
                /** @description The latest states that became known, oldest first */
                states: {
                    /** @enum {string} */
                    status: "working" | "input_required" | "completed" | "failed" | "cancelled";
                    /**
                     * Format: date-time
                     * @description UTC
                     */
                    timestamp: string;
                }[];
            };
        } | {
            /**
             * Format: uuid
             * @description Shared by the STARTED event of a call and its terminal event
             */
            eventId: string;
            /** @constant */
            eventType: "FAILED";
            /**
             * Format: date-time
             * @description UTC
             */
            timestamp: string;
            /** @enum {string} */
            transport: "mcp" | "grpc" | "code";
            namespace: string;
            /** @description Tool name; `code-execution/{engine}/{language}` for code */
            toolName: string;
            toolType: string;
            /** @description Forward that the tool was discovered from */
            forward?: string;
            /** @description Name of the capability service */
            serviceId?: string;
            /** @description `host:port` of the capability service, or origin of the upstream; empty if there is none */
            serviceAddress: string;
            conversationId?: string;
            /** @description Request header `x-request-id` of the call */
            requestId?: string;
            /**
             * @description The call was made through the MCP endpoint of the management listener
             * @constant
             */
            via?: "console";
            /** @description User reported by the authenticating proxy, at most 256 characters */
            user?: string;
            /** @description Evaluations that the call has passed, in order; omitted if there were none */
            evaluations?: {
                evaluator: string;
                /** @enum {string} */
                verdict: "pass" | "warn" | "filter_tools" | "set_metadata" | "llm_failure" | "action_failure";
                /** @description Milliseconds */
                duration: number;
            }[];
            /** @description Milliseconds */
            duration: number;
            /** @enum {string} */
            outcome: "tool_error" | "failed" | "timeout" | "canceled" | "blocked";
            /** @enum {string} */
            errorCategory: "SERVICE_UNAVAILABLE" | "TOOL_DEFINITION_ERROR" | "INVALID_ARGUMENTS" | "EXECUTION_ERROR" | "POLICY_BLOCKED" | "UNKNOWN";
            /** @description At most 1000 characters */
            errorMessage: string;
            /** @description Evaluator that rejected the call, which was not sent */
            evaluator?: string;
            /** @description Reason of that evaluator, at most 1000 characters */
            reason?: string;
            /** @description The task that continued the call */
            task?: {
                id: string;
                /**
                 * @description How its end became known; omitted for a call that became a task
                 * @enum {string}
                 */
                end?: "polled" | "notified" | "returned" | "cancelled" | "expired" | "discarded";
                /** @description The latest states that became known, oldest first */
                states: {
                    /** @enum {string} */
                    status: "working" | "input_required" | "completed" | "failed" | "cancelled";
                    /**
                     * Format: date-time
                     * @description UTC
                     */
                    timestamp: string;
                }[];
            };
        };
        ToolInput: {
            name: string;
            /** @description Description; may be empty. */
            description: string;
            /** @description Upstream that calls are sent to. Cannot be changed on a discovered tool. */
            uri: string;
            /** @description Type label; `mcp-forward` for discovered tools. Alias: `type`. */
            toolType: string;
            /** @description Display name. */
            title?: string;
            /** @description MCP icons. */
            icons?: ({
                src: string;
                mimeType?: string;
                sizes?: string[];
                /** @enum {string} */
                theme?: "light" | "dark";
            } & {
                [key: string]: unknown;
            })[];
            /** @description MCP metadata. */
            _meta?: {
                [key: string]: unknown;
            };
            /** @description JSON Schema of the arguments, of type object. Served with its type, also when it has none. Alias: `inputSchema`. */
            input_schema: {
                $schema?: string;
                properties?: {
                    [key: string]: {
                        [key: string]: unknown;
                    } | boolean;
                };
                required?: string[];
                /** @constant */
                type?: "object";
            } & {
                [key: string]: unknown;
            };
            /** @description JSON Schema of the structured result. Alias: `outputSchema`. */
            output_schema?: {
                $schema?: string;
                properties?: {
                    [key: string]: {
                        [key: string]: unknown;
                    } | boolean;
                };
                required?: string[];
            } & {
                [key: string]: unknown;
            };
            /** @description MCP tool annotations. */
            annotations?: {
                title?: string;
                readOnlyHint?: boolean;
                destructiveHint?: boolean;
                idempotentHint?: boolean;
                openWorldHint?: boolean;
            } & {
                [key: string]: unknown;
            };
            /** @description MCP execution properties. */
            execution?: {
                /** @enum {string} */
                taskSupport?: "required" | "optional" | "forbidden";
            } & {
                [key: string]: unknown;
            };
            /** @description Secrets reference passed to the capability service. */
            secretsURI?: string;
            /** @description Namespace of the entry (default `default`). Created if it does not exist. */
            namespace?: string;
            /** @description Labels. An update replaces all of them. */
            labels?: {
                [key: string]: string;
            };
            /** @description Default `true`. MCP clients and actions do not find a disabled entry, which keeps its key. An update without it changes nothing. */
            enabled?: boolean;
            /** @description Configuration reference passed to the capability service. */
            configurationURI?: string;
            /** @description Operator-defined identifier. */
            id?: string;
        } & {
            [key: string]: unknown;
        };
        ToolOverrides: {
            name?: string;
            description?: string | null;
            uri?: unknown;
            toolType?: unknown;
            title?: string | null;
            icons?: unknown[] | null;
            _meta?: {
                [key: string]: unknown;
            } | null;
            /** @description JSON Schema of the arguments, of type object. Served with its type, also when it has none. Alias: `inputSchema`. */
            input_schema?: {
                $schema?: string;
                properties?: {
                    [key: string]: {
                        [key: string]: unknown;
                    } | boolean;
                };
                required?: string[];
                /** @constant */
                type?: "object";
            } & {
                [key: string]: unknown;
            };
            output_schema?: {
                [key: string]: unknown;
            } | null;
            annotations?: {
                [key: string]: unknown;
            } | null;
            execution?: {
                [key: string]: unknown;
            } | null;
            /** @description Secrets reference passed to the capability service. */
            secretsURI?: string;
            /** @description Namespace of the entry (default `default`). Created if it does not exist. */
            namespace?: string;
            /** @description Labels. An update replaces all of them. */
            labels?: {
                [key: string]: string;
            };
            /** @description Unchanged if it is missing. null: `true`. */
            enabled?: boolean | null;
            /** @description Configuration reference passed to the capability service. */
            configurationURI?: string;
            /** @description Operator-defined identifier. */
            id?: string;
            /** @description Forward that discovers the tool. */
            forward: string;
            /** @description Name on the upstream (default `name`). */
            upstreamName?: string;
            shadowed?: unknown;
            upstream?: unknown;
        } & {
            [key: string]: unknown;
        };
        ToolUpdate: {
            name?: string;
            /** @description Description; may be empty. */
            description: string;
            /** @description Upstream that calls are sent to. Cannot be changed on a discovered tool. */
            uri: string;
            /** @description Type label; `mcp-forward` for discovered tools. Alias: `type`. */
            toolType: string;
            /** @description Display name. */
            title?: string;
            /** @description MCP icons. */
            icons?: ({
                src: string;
                mimeType?: string;
                sizes?: string[];
                /** @enum {string} */
                theme?: "light" | "dark";
            } & {
                [key: string]: unknown;
            })[];
            /** @description MCP metadata. */
            _meta?: {
                [key: string]: unknown;
            };
            /** @description JSON Schema of the arguments, of type object. Served with its type, also when it has none. Alias: `inputSchema`. */
            input_schema: {
                $schema?: string;
                properties?: {
                    [key: string]: {
                        [key: string]: unknown;
                    } | boolean;
                };
                required?: string[];
                /** @constant */
                type?: "object";
            } & {
                [key: string]: unknown;
            };
            /** @description JSON Schema of the structured result. Alias: `outputSchema`. */
            output_schema?: {
                $schema?: string;
                properties?: {
                    [key: string]: {
                        [key: string]: unknown;
                    } | boolean;
                };
                required?: string[];
            } & {
                [key: string]: unknown;
            };
            /** @description MCP tool annotations. */
            annotations?: {
                title?: string;
                readOnlyHint?: boolean;
                destructiveHint?: boolean;
                idempotentHint?: boolean;
                openWorldHint?: boolean;
            } & {
                [key: string]: unknown;
            };
            /** @description MCP execution properties. */
            execution?: {
                /** @enum {string} */
                taskSupport?: "required" | "optional" | "forbidden";
            } & {
                [key: string]: unknown;
            };
            /** @description Secrets reference passed to the capability service. */
            secretsURI?: string;
            /** @description Namespace of the entry (default `default`). Created if it does not exist. */
            namespace?: string;
            /** @description Labels. An update replaces all of them. */
            labels?: {
                [key: string]: string;
            };
            /** @description Default `true`. MCP clients and actions do not find a disabled entry, which keeps its key. An update without it changes nothing. */
            enabled?: boolean;
            /** @description Configuration reference passed to the capability service. */
            configurationURI?: string;
            /** @description Operator-defined identifier. */
            id?: string;
        } & {
            [key: string]: unknown;
        };
        Unbound: {
            unbound: string;
        };
        ViewEntry: {
            /** @enum {string} */
            kind: "tool" | "resource" | "resource_template" | "prompt";
            name: string;
            /** @description Name of a tool or prompt; URI of a resource */
            key: string;
            /** @description Whether such a client finds the entry in its list */
            offered: boolean;
            /**
             * @description Why it is not offered: an operator disabled it or blocked its forward, another entry holds its key, or its upstream lists it only for clients of another era or with other capabilities
             * @enum {string}
             */
            reason?: "disabled" | "blocked" | "shadowed" | "other_clients";
            /** @description The object in the list of the client; omitted if it is not offered */
            definition?: {
                [key: string]: unknown;
            };
            source: components["schemas"]["EntrySource"];
            /** @description Members of the MCP object that an operator has replaced or removed */
            overrides: string[];
            /** @description Entries that are not offered because this one holds their key */
            shadows?: components["schemas"]["EntrySource"][];
            /** @description The entry that holds the key */
            shadowedBy?: components["schemas"]["EntrySource"];
        };
    };
    responses: {
        /** @description Malformed request or invalid body; `details` lists the invalid members. */
        BadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "BAD_REQUEST";
                        message: string;
                        details?: {
                            path: string;
                            message: string;
                        }[];
                    };
                };
            };
        };
        /** @description The credential is not accepted, or missing where a right is required. */
        Unauthorized: {
            headers: {
                /** @description The accepted scheme. */
                "WWW-Authenticate": string;
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "UNAUTHORIZED";
                        message: string;
                    };
                };
            };
        };
        /** @description The Host or Origin is not allowed, or the caller does not have the required right. */
        Forbidden: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "FORBIDDEN";
                        message: string;
                    };
                };
            };
        };
        /** @description Not found. */
        NotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "NOT_FOUND";
                        message: string;
                    };
                };
            };
        };
        /** @description Method not allowed. */
        MethodNotAllowed: {
            headers: {
                /** @description Allowed methods. */
                Allow: string;
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "METHOD_NOT_ALLOWED";
                        message: string;
                    };
                };
            };
        };
        /** @description Conflict with the current state, such as a duplicate or ambiguous name; `details` describes it. */
        Conflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "CONFLICT";
                        message: string;
                        details?: {
                            [key: string]: unknown;
                        };
                    };
                };
            };
        };
        /** @description The request body exceeds 1 MiB, 4 MiB for an identity, or 16 MiB for a desired state. */
        PayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "PAYLOAD_TOO_LARGE";
                        message: string;
                    };
                };
            };
        };
        /** @description Well-formed body that violates a semantic rule; `details` may list the members. */
        Unprocessable: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "UNPROCESSABLE";
                        message: string;
                        details?: {
                            path: string;
                            message: string;
                        }[];
                    };
                };
            };
        };
        /** @description Internal error; nothing was changed. See the service log. */
        Internal: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "INTERNAL";
                        message: string;
                    };
                };
            };
        };
        /** @description The upstream or capability service is unreachable or sent an invalid response. */
        BadGateway: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "BAD_GATEWAY";
                        message: string;
                    };
                };
            };
        };
        /** @description The service is starting or shutting down, or the client limit is reached. */
        Unavailable: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "UNAVAILABLE";
                        message: string;
                    };
                };
            };
        };
        /** @description The request line and headers exceed 16 KiB. */
        RequestHeaderFieldsTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "PAYLOAD_TOO_LARGE";
                        message: string;
                    };
                };
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: {
        Proxied: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** Proxied to the legacy backend, like all paths that begin with this one */
            get: {
                parameters: {
                    query?: never;
                    header?: never;
                    path?: never;
                    cookie?: never;
                };
                requestBody?: never;
                responses: {
                    400: components["responses"]["BadRequest"];
                    401: components["responses"]["Unauthorized"];
                    403: components["responses"]["Forbidden"];
                    502: components["responses"]["BadGateway"];
                    503: components["responses"]["Unavailable"];
                    /** @description Response of the legacy backend. */
                    default: {
                        headers: {
                            [name: string]: unknown;
                        };
                        content?: never;
                    };
                };
            };
            /** Proxied to the legacy backend, like all paths that begin with this one */
            put: {
                parameters: {
                    query?: never;
                    header?: never;
                    path?: never;
                    cookie?: never;
                };
                requestBody?: never;
                responses: {
                    400: components["responses"]["BadRequest"];
                    401: components["responses"]["Unauthorized"];
                    403: components["responses"]["Forbidden"];
                    502: components["responses"]["BadGateway"];
                    503: components["responses"]["Unavailable"];
                    /** @description Response of the legacy backend. */
                    default: {
                        headers: {
                            [name: string]: unknown;
                        };
                        content?: never;
                    };
                };
            };
            /** Proxied to the legacy backend, like all paths that begin with this one */
            post: {
                parameters: {
                    query?: never;
                    header?: never;
                    path?: never;
                    cookie?: never;
                };
                requestBody?: never;
                responses: {
                    400: components["responses"]["BadRequest"];
                    401: components["responses"]["Unauthorized"];
                    403: components["responses"]["Forbidden"];
                    502: components["responses"]["BadGateway"];
                    503: components["responses"]["Unavailable"];
                    /** @description Response of the legacy backend. */
                    default: {
                        headers: {
                            [name: string]: unknown;
                        };
                        content?: never;
                    };
                };
            };
            /** Proxied to the legacy backend, like all paths that begin with this one */
            delete: {
                parameters: {
                    query?: never;
                    header?: never;
                    path?: never;
                    cookie?: never;
                };
                requestBody?: never;
                responses: {
                    400: components["responses"]["BadRequest"];
                    401: components["responses"]["Unauthorized"];
                    403: components["responses"]["Forbidden"];
                    502: components["responses"]["BadGateway"];
                    503: components["responses"]["Unavailable"];
                    /** @description Response of the legacy backend. */
                    default: {
                        headers: {
                            [name: string]: unknown;
                        };
                        content?: never;
                    };
                };
            };
            options?: never;
            head?: never;
            /** Proxied to the legacy backend, like all paths that begin with this one */
            patch: {
                parameters: {
                    query?: never;
                    header?: never;
                    path?: never;
                    cookie?: never;
                };
                requestBody?: never;
                responses: {
                    400: components["responses"]["BadRequest"];
                    401: components["responses"]["Unauthorized"];
                    403: components["responses"]["Forbidden"];
                    502: components["responses"]["BadGateway"];
                    503: components["responses"]["Unavailable"];
                    /** @description Response of the legacy backend. */
                    default: {
                        headers: {
                            [name: string]: unknown;
                        };
                        content?: never;
                    };
                };
            };
            trace?: never;
        };
    };
}
export type $defs = Record<string, never>;
export interface operations {
    listNamespaces: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Namespaces, including `default` */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Namespace"][];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    createNamespace: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NamespaceInput"];
            };
        };
        responses: {
            /** @description Existing namespace, unchanged */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Namespace"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            /** @description Created namespace */
            201: {
                headers: {
                    /** @description URL of the created object. */
                    Location: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Namespace"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    getNamespace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The namespace */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Namespace"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    updateNamespace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NamespaceUpdate"];
            };
        };
        responses: {
            /** @description Updated namespace */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Namespace"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    deleteNamespace: {
        parameters: {
            query?: {
                /** @description `true` deletes all entries and forwards of the namespace. */
                cascade?: "true" | "false";
            };
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Name of the deleted namespace */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["RemovedNamespace"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    viewNamespace: {
        parameters: {
            query?: {
                /** @description Era of the client: `modern` (default) or `legacy`. */
                era?: string;
                /** @description Capabilities of the client: a JSON object. Default: none. */
                capabilities?: string;
                /** @description Number of elements of the page: a whole number from 1 to 1000. Default: all. */
                limit?: string;
                /** @description Continues the list: `page.next` of the previous page. It stays valid while the list changes. */
                cursor?: string;
                /** @description Filter by a part of the name or description, in any case. */
                q?: string;
            };
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Entries by kind, in the order of lists */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["ViewEntry"][];
                        error: null;
                        page?: components["schemas"]["PageInfo"];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    listForwards: {
        parameters: {
            query?: {
                /** @description Filter by namespace. */
                namespace?: string;
                /** @description Number of elements of the page: a whole number from 1 to 1000. Default: all. */
                limit?: string;
                /** @description Continues the list: `page.next` of the previous page. It stays valid while the list changes. */
                cursor?: string;
                /** @description Filter by a part of the name or description, in any case. */
                q?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Forwards in order of registration */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Forward"][];
                        error: null;
                        page?: components["schemas"]["PageInfo"];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    createForward: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ForwardInput"];
            };
        };
        responses: {
            /** @description Registered forward */
            201: {
                headers: {
                    /** @description URL of the created object. */
                    Location: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Forward"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            422: components["responses"]["Unprocessable"];
            500: components["responses"]["Internal"];
        };
    };
    getForward: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The forward */
            200: {
                headers: {
                    /** @description Identifies the state of the members that operators set. Send it as `If-Match` with a change. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Forward"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    deleteForward: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Name of the deleted forward */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Removed"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    updateForward: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ForwardPatch"];
            };
        };
        responses: {
            /** @description Changed forward */
            200: {
                headers: {
                    /** @description Identifies the state of the members that operators set. Send it as `If-Match` with a change. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Forward"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            422: components["responses"]["Unprocessable"];
            500: components["responses"]["Internal"];
        };
    };
    refreshForward: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Numbers of discovered entries */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Refreshed"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
            502: components["responses"]["BadGateway"];
        };
    };
    testForward: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ForwardTestInput"];
            };
        };
        responses: {
            /** @description All steps, also if one failed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["ForwardTest"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["PayloadTooLarge"];
            422: components["responses"]["Unprocessable"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getForwardHistory: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Changes, newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["ForwardChange"][];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    listTools: {
        parameters: {
            query?: {
                /** @description Filter by namespace. */
                namespace?: string;
                /** @description `shadowed` includes entries that are not served because an entry registered earlier has the same key. `upstream` includes the upstream values of discovered entries. */
                include?: "shadowed" | "upstream" | "shadowed,upstream";
                /** @description `shadowed` lists only the entries that are not served because an entry registered earlier has the same key. */
                only?: "shadowed";
                /** @description Number of elements of the page: a whole number from 1 to 1000. Default: all. */
                limit?: string;
                /** @description Continues the list: `page.next` of the previous page. It stays valid while the list changes. */
                cursor?: string;
                /** @description Filter by a part of the name or description, in any case. */
                q?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List of tools */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Tool"][];
                        error: null;
                        page?: components["schemas"]["PageInfo"];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    createTool: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ToolInput"];
            };
        };
        responses: {
            /** @description Registered tool */
            201: {
                headers: {
                    /** @description URL of the created object. */
                    Location: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Tool"];
                        error: null;
                        warnings?: {
                            /**
                             * @description The member is stored and sent to MCP clients, but may be misspelled.
                             * @constant
                             */
                            code: "UNKNOWN_MEMBER";
                            member: string;
                            message: string;
                        }[];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    getTool: {
        parameters: {
            query?: {
                /** @description Name of the entry in place of that in the path, for the names `.` and `..` of upstreams, which a path cannot contain. */
                name?: string;
                /** @description Namespace of the entry. Default: `default`, or else the only namespace with an entry of this name. */
                namespace?: string;
                /** @description `upstream` includes the upstream values of the members that can be overridden on a discovered entry, as the read-only member `upstream`. */
                include?: "upstream";
            };
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The tool */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Tool"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            500: components["responses"]["Internal"];
        };
    };
    updateTool: {
        parameters: {
            query?: {
                /** @description Name of the entry in place of that in the path, for the names `.` and `..` of upstreams, which a path cannot contain. */
                name?: string;
                /** @description Namespace of the entry. Default: `default`, or else the only namespace with an entry of this name. */
                namespace?: string;
                /** @description `keep` stores unknown members with a warning, as on creation. */
                unknown_members?: "keep";
            };
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ToolUpdate"];
            };
        };
        responses: {
            /** @description Updated tool */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Tool"];
                        error: null;
                        warnings?: {
                            /**
                             * @description The member is stored and sent to MCP clients, but may be misspelled.
                             * @constant
                             */
                            code: "UNKNOWN_MEMBER";
                            member: string;
                            message: string;
                        }[];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    deleteTool: {
        parameters: {
            query?: {
                /** @description Name of the entry in place of that in the path, for the names `.` and `..` of upstreams, which a path cannot contain. */
                name?: string;
                /** @description Namespace of the entry. Default: `default`, or else the only namespace with an entry of this name. */
                namespace?: string;
            };
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Name of the deleted tool */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Removed"];
                        error: null;
                        warnings?: {
                            /**
                             * @description The next discovery of its forward registers the entry again.
                             * @constant
                             */
                            code: "RETURNS_WITH_DISCOVERY";
                            message: string;
                        }[];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    enableTools: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EnabledByName"];
            };
        };
        responses: {
            /** @description Number of selected tools */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Enabled"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    listResources: {
        parameters: {
            query?: {
                /** @description Filter by namespace. */
                namespace?: string;
                /** @description `shadowed` includes entries that are not served because an entry registered earlier has the same key. `upstream` includes the upstream values of discovered entries. */
                include?: "shadowed" | "upstream" | "shadowed,upstream";
                /** @description `shadowed` lists only the entries that are not served because an entry registered earlier has the same key. */
                only?: "shadowed";
                /** @description Number of elements of the page: a whole number from 1 to 1000. Default: all. */
                limit?: string;
                /** @description Continues the list: `page.next` of the previous page. It stays valid while the list changes. */
                cursor?: string;
                /** @description Filter by a part of the name or description, in any case. */
                q?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List of resources */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Resource"][];
                        error: null;
                        page?: components["schemas"]["PageInfo"];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    createResource: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ResourceInput"];
            };
        };
        responses: {
            /** @description Registered resource */
            201: {
                headers: {
                    /** @description URL of the created object. */
                    Location: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Resource"];
                        error: null;
                        warnings?: {
                            /**
                             * @description The member is stored and sent to MCP clients, but may be misspelled.
                             * @constant
                             */
                            code: "UNKNOWN_MEMBER";
                            member: string;
                            message: string;
                        }[];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    getResource: {
        parameters: {
            query?: {
                /** @description Name of the entry in place of that in the path, for the names `.` and `..` of upstreams, which a path cannot contain. */
                name?: string;
                /** @description Namespace of the entry. Default: `default`, or else the only namespace with an entry of this name. */
                namespace?: string;
                /** @description Location of the resource, if several resources share the name. */
                uri?: string;
                /** @description `upstream` includes the upstream values of the members that can be overridden on a discovered entry, as the read-only member `upstream`. */
                include?: "upstream";
            };
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The resource */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Resource"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            500: components["responses"]["Internal"];
        };
    };
    updateResource: {
        parameters: {
            query?: {
                /** @description Name of the entry in place of that in the path, for the names `.` and `..` of upstreams, which a path cannot contain. */
                name?: string;
                /** @description Namespace of the entry. Default: `default`, or else the only namespace with an entry of this name. */
                namespace?: string;
                /** @description Location of the resource, if several resources share the name. */
                uri?: string;
                /** @description `keep` stores unknown members with a warning, as on creation. */
                unknown_members?: "keep";
            };
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ResourceUpdate"];
            };
        };
        responses: {
            /** @description Updated resource */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Resource"];
                        error: null;
                        warnings?: {
                            /**
                             * @description The member is stored and sent to MCP clients, but may be misspelled.
                             * @constant
                             */
                            code: "UNKNOWN_MEMBER";
                            member: string;
                            message: string;
                        }[];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    deleteResource: {
        parameters: {
            query?: {
                /** @description Name of the entry in place of that in the path, for the names `.` and `..` of upstreams, which a path cannot contain. */
                name?: string;
                /** @description Namespace of the entry. Default: `default`, or else the only namespace with an entry of this name. */
                namespace?: string;
                /** @description Location of the resource, if several resources share the name. */
                uri?: string;
            };
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Name of the deleted resource */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Removed"];
                        error: null;
                        warnings?: {
                            /**
                             * @description The next discovery of its forward registers the entry again.
                             * @constant
                             */
                            code: "RETURNS_WITH_DISCOVERY";
                            message: string;
                        }[];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    enableResources: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EnabledByUri"];
            };
        };
        responses: {
            /** @description Number of selected resources */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Enabled"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    listPrompts: {
        parameters: {
            query?: {
                /** @description Filter by namespace. */
                namespace?: string;
                /** @description `shadowed` includes entries that are not served because an entry registered earlier has the same key. `upstream` includes the upstream values of discovered entries. */
                include?: "shadowed" | "upstream" | "shadowed,upstream";
                /** @description `shadowed` lists only the entries that are not served because an entry registered earlier has the same key. */
                only?: "shadowed";
                /** @description Number of elements of the page: a whole number from 1 to 1000. Default: all. */
                limit?: string;
                /** @description Continues the list: `page.next` of the previous page. It stays valid while the list changes. */
                cursor?: string;
                /** @description Filter by a part of the name or description, in any case. */
                q?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List of prompts */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Prompt"][];
                        error: null;
                        page?: components["schemas"]["PageInfo"];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    createPrompt: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PromptInput"];
            };
        };
        responses: {
            /** @description Registered prompt */
            201: {
                headers: {
                    /** @description URL of the created object. */
                    Location: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Prompt"];
                        error: null;
                        warnings?: {
                            /**
                             * @description The member is stored and sent to MCP clients, but may be misspelled.
                             * @constant
                             */
                            code: "UNKNOWN_MEMBER";
                            member: string;
                            message: string;
                        }[];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    getPrompt: {
        parameters: {
            query?: {
                /** @description Name of the entry in place of that in the path, for the names `.` and `..` of upstreams, which a path cannot contain. */
                name?: string;
                /** @description Namespace of the entry. Default: `default`, or else the only namespace with an entry of this name. */
                namespace?: string;
                /** @description `upstream` includes the upstream values of the members that can be overridden on a discovered entry, as the read-only member `upstream`. */
                include?: "upstream";
            };
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The prompt */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Prompt"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            500: components["responses"]["Internal"];
        };
    };
    updatePrompt: {
        parameters: {
            query?: {
                /** @description Name of the entry in place of that in the path, for the names `.` and `..` of upstreams, which a path cannot contain. */
                name?: string;
                /** @description Namespace of the entry. Default: `default`, or else the only namespace with an entry of this name. */
                namespace?: string;
                /** @description `keep` stores unknown members with a warning, as on creation. */
                unknown_members?: "keep";
            };
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PromptUpdate"];
            };
        };
        responses: {
            /** @description Updated prompt */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Prompt"];
                        error: null;
                        warnings?: {
                            /**
                             * @description The member is stored and sent to MCP clients, but may be misspelled.
                             * @constant
                             */
                            code: "UNKNOWN_MEMBER";
                            member: string;
                            message: string;
                        }[];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    deletePrompt: {
        parameters: {
            query?: {
                /** @description Name of the entry in place of that in the path, for the names `.` and `..` of upstreams, which a path cannot contain. */
                name?: string;
                /** @description Namespace of the entry. Default: `default`, or else the only namespace with an entry of this name. */
                namespace?: string;
            };
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Name of the deleted prompt */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Removed"];
                        error: null;
                        warnings?: {
                            /**
                             * @description The next discovery of its forward registers the entry again.
                             * @constant
                             */
                            code: "RETURNS_WITH_DISCOVERY";
                            message: string;
                        }[];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    enablePrompts: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EnabledByName"];
            };
        };
        responses: {
            /** @description Number of selected prompts */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Enabled"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    listServices: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Service entries in order of registration */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Service"][];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    createService: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ServiceInput"];
            };
        };
        responses: {
            /** @description Replaced entry */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Service"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            /** @description Registered entry */
            201: {
                headers: {
                    /** @description URL of the created object. */
                    Location: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Service"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    getService: {
        parameters: {
            query?: {
                /** @description Filter by type, if several entries share the name. */
                serviceType?: "tool-invoker" | "resource-provider" | "multi-capability" | "code-execution-engine";
            };
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description First registered entry. If several entries share the name, `entries` lists all of them */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            name: string;
                            host: string;
                            port: number;
                            address: string;
                            /** @enum {string} */
                            serviceType: "tool-invoker" | "resource-provider" | "multi-capability" | "code-execution-engine";
                            serviceSubType?: string;
                            languageName?: string;
                            labels: {
                                [key: string]: string;
                            };
                            id?: string;
                            /**
                             * @description Result of the last health probe; `pending` before the first.
                             * @enum {string}
                             */
                            health: "pending" | "healthy" | "unhealthy" | "down";
                            entries?: components["schemas"]["Service"][];
                        };
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    deleteService: {
        parameters: {
            query?: {
                /** @description Filter by type, if several entries share the name. */
                serviceType?: "tool-invoker" | "resource-provider" | "multi-capability" | "code-execution-engine";
            };
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Name and number of deleted entries */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            removed: string;
                            count: number;
                        };
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    provisionService: {
        parameters: {
            query?: {
                /** @description Filter by type, if several entries share the name. */
                serviceType?: "tool-invoker" | "resource-provider" | "multi-capability" | "code-execution-engine";
            };
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProvisionInput"];
            };
        };
        responses: {
            /** @description References to the stored configuration and secrets */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Provisioned"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
            502: components["responses"]["BadGateway"];
        };
    };
    listEvaluators: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Active evaluators in order of execution */
            200: {
                headers: {
                    /** @description Active revision in quotes; `"0"` if there is none. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["ListedEvaluator"][];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    replaceEvaluators: {
        parameters: {
            query?: {
                /** @description Reject the request if an action cannot be loaded, instead of skipping its evaluator. The default is `SERVICE_EVALUATORS_STRICT`. */
                strict?: "true" | "false";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EvaluatorsInput"];
            };
        };
        responses: {
            /** @description Active evaluators. `warnings` lists evaluators that were skipped because they could not be loaded, and those that cannot match a request */
            200: {
                headers: {
                    /** @description Active revision in quotes; `"0"` if there is none. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Evaluator"][];
                        error: null;
                        warnings?: components["schemas"]["EvaluatorWarning"][];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            422: components["responses"]["Unprocessable"];
            500: components["responses"]["Internal"];
        };
    };
    dryRunEvaluator: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DryRunInput"];
            };
        };
        responses: {
            /** @description What the evaluator would do */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["DryRunResult"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["PayloadTooLarge"];
            422: components["responses"]["Unprocessable"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    listLlmConnections: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Sorted connection names */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: string[];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    listNamespaceBindings: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Conversation ids by namespace */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            [key: string]: string;
                        };
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    bindNamespace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                namespace: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BindingInput"];
            };
        };
        responses: {
            /** @description The binding */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Binding"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    unbindNamespace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                namespace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The namespace, even if it was not bound */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Unbound"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    listEvaluatorRevisions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Revisions, newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["EvaluatorRevision"][];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getActiveEvaluatorRevision: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The revision */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["EvaluatorRevisionContent"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    getEvaluatorRevision: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Revision number. */
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The revision */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["EvaluatorRevisionContent"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    activateEvaluatorRevision: {
        parameters: {
            query?: {
                /** @description Reject the request if an action cannot be loaded, instead of skipping its evaluator. The default is `SERVICE_EVALUATORS_STRICT`. */
                strict?: "true" | "false";
            };
            header?: never;
            path: {
                /** @description Revision number. */
                id: number;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ActivationInput"];
            };
        };
        responses: {
            /** @description Active evaluators. `warnings` lists evaluators that were skipped because they could not be loaded, and those that cannot match a request */
            200: {
                headers: {
                    /** @description Active revision in quotes; `"0"` if there is none. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Evaluator"][];
                        error: null;
                        warnings?: components["schemas"]["EvaluatorWarning"][];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            422: components["responses"]["Unprocessable"];
            500: components["responses"]["Internal"];
        };
    };
    getIdentity: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The active settings; null if none were ever configured */
            200: {
                headers: {
                    /** @description Active revision in quotes; `"0"` if there is none. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Identity"] | null;
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    replaceIdentity: {
        parameters: {
            query?: {
                /** @description Change the identity even if the caller is no admin by the new settings. Without it, such a change is `UNPROCESSABLE`. */
                lock_out?: "allow";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["IdentityChange"];
            };
        };
        responses: {
            /** @description The active settings */
            200: {
                headers: {
                    /** @description Active revision in quotes; `"0"` if there is none. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Identity"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            422: components["responses"]["Unprocessable"];
            500: components["responses"]["Internal"];
        };
    };
    getIdentityStatus: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The status */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["IdentityStatus"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    listIdentityRevisions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Revisions, newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["IdentityRevision"][];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getActiveIdentityRevision: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The revision */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["IdentityRevisionContent"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    getIdentityRevision: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Revision number. */
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The revision */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["IdentityRevisionContent"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    activateIdentityRevision: {
        parameters: {
            query?: {
                /** @description Change the identity even if the caller is no admin by the new settings. Without it, such a change is `UNPROCESSABLE`. */
                lock_out?: "allow";
            };
            header?: never;
            path: {
                /** @description Revision number. */
                id: number;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ActivationInput"];
            };
        };
        responses: {
            /** @description The active settings */
            200: {
                headers: {
                    /** @description Active revision in quotes; `"0"` if there is none. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Identity"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            422: components["responses"]["Unprocessable"];
            500: components["responses"]["Internal"];
        };
    };
    applyState: {
        parameters: {
            query?: {
                /** @description Return the changes without making them (default `false`). */
                dry_run?: "true" | "false";
                /** @description Delete what the sections of the body do not contain, and revert overrides that it does not contain (default `false`). */
                prune?: "true" | "false";
                /** @description Reject evaluators whose action cannot be loaded, instead of skipping them. The default is `SERVICE_EVALUATORS_STRICT`. */
                strict?: "true" | "false";
                /** @description Change the identity even if the caller is no admin by the new settings. Without it, such a change is `UNPROCESSABLE`. */
                lock_out?: "allow";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StateInput"];
            };
        };
        responses: {
            /** @description The changes, made unless `dry_run` is set. `warnings` is about evaluators */
            200: {
                headers: {
                    /** @description Identifies these changes. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["StateResult"];
                        error: null;
                        warnings?: components["schemas"]["EvaluatorWarning"][];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            422: components["responses"]["Unprocessable"];
            500: components["responses"]["Internal"];
        };
    };
    listToolCallEvents: {
        parameters: {
            query?: {
                /** @description Filter by tool name. */
                toolName?: string;
                /** @description Filter by error category (FAILED events only). */
                category?: "SERVICE_UNAVAILABLE" | "TOOL_DEFINITION_ERROR" | "INVALID_ARGUMENTS" | "EXECUTION_ERROR" | "POLICY_BLOCKED" | "UNKNOWN";
                /** @description Maximum number of events (default 100): a whole number from 1; more than 1000 is 1000. */
                limit?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Events, newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["ToolCallEvent"][];
                        error: null;
                        /** @description Ids of live replicas that did not answer in time: what they have in memory is missing. Otherwise missing. */
                        unanswered?: string[];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    watchToolCallEvents: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Stream of events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    listTasks: {
        parameters: {
            query?: {
                /** @description Filter by namespace. */
                namespace?: string;
                /** @description Filter by forward. */
                forward?: string;
                /** @description Filter by name of the called tool. */
                tool?: string;
                /** @description Filter by user. */
                user?: string;
                /** @description Filter by the id of the tool-call events of the call. */
                eventId?: string;
                /** @description Filter by state: `open`, `ended`, `all`, `working`, `input_required`, `completed`, `failed`, `cancelled`. Default: `open`. */
                state?: "open" | "ended" | "all" | "working" | "input_required" | "completed" | "failed" | "cancelled";
                /** @description Number of elements of the page: a whole number from 1 to 1000. Default: all. */
                limit?: string;
                /** @description Continues the list: `page.next` of the previous page. It stays valid while the list changes. */
                cursor?: string;
                /** @description Filter by a part of the id, tool, forward, user or status message, in any case. */
                q?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Tasks, oldest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Task"][];
                        error: null;
                        page?: components["schemas"]["PageInfo"];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getTask: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Task"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    cancelTask: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Percent-encoded name (`/` as `%2F`). */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The canceled task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Task"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
            502: components["responses"]["BadGateway"];
        };
    };
    watchEvents: {
        parameters: {
            query?: {
                /** @description Comma-separated topics: tool-calls, tasks, forwards, services, evaluators, registry. Default: all. */
                topics?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Stream of events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    listLogLines: {
        parameters: {
            query?: {
                /** @description Least severe level. Default: all that `RUST_LOG` selects. */
                level?: "error" | "warn" | "info" | "debug" | "trace";
                /** @description Maximum number of lines: a whole number from 1. Default: all, at most 1000. */
                limit?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Lines, oldest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["LogLine"][];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    watchLogLines: {
        parameters: {
            query?: {
                /** @description Least severe level. Default: all that `RUST_LOG` selects. */
                level?: "error" | "warn" | "info" | "debug" | "trace";
                /** @description Number of stored lines to begin with. Default: 0. */
                limit?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Stream of lines */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    listInteractions: {
        parameters: {
            query?: {
                /** @description Filter by conversation id. */
                conversation_id?: string;
                /** @description Filter by completion id. */
                completion_id?: string;
                /** @description Maximum number of interactions, the newest: a whole number from 1. */
                limit?: string;
                /** @description Include request and response bodies (default true). */
                bodies?: "true" | "false";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Interactions, oldest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Interaction"][];
                        error: null;
                        /** @description Ids of live replicas that did not answer in time: what they have in memory is missing. Otherwise missing. */
                        unanswered?: string[];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    clearInteractions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Deleted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** @constant */
                            cleared: true;
                        };
                        error: null;
                        /** @description Ids of live replicas that did not answer in time: what they have in memory is missing. Otherwise missing. */
                        unanswered?: string[];
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    configureInference: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description `host:port`, `http://host[:port][/path]` or `https://host[:port][/path]` */
                    upstream?: string;
                    /** @description Maximum number of stored interactions; 0 disables recording */
                    capacity?: number;
                } & {
                    [key: string]: unknown;
                };
            };
        };
        responses: {
            /** @description Current configuration */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["InferenceConfig"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    getHealth: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Alive */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** @constant */
                            status: "ok";
                        };
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getHealthAlias: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Alive */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** @constant */
                            status: "ok";
                        };
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getReadiness: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Ready */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Readiness"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getStatistics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Number of entries in all namespaces */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Statistics"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getMetrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Counters since the process started */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Metrics"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    listReplicas: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Replicas, the oldest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Replica"][];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getTimeSeries: {
        parameters: {
            query?: {
                /** @description Begin: an ISO 8601 time, or a duration before now such as `15m`. Default: `1h`. */
                since?: string;
                /** @description Duration of a step: a multiple of 10 s up to 1 h, such as `10s` (default) or `1m`. */
                step?: string;
                /** @description Groups the calls. Default: one series of all. */
                by?: "namespace" | "forward" | "tool" | "method" | "outcome";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Time series */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["TimeSeries"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    listPlugins: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Manifests; none without the web console */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["PluginManifest"][];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getOpenApi: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OpenAPI 3.1 document */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: unknown;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    createBackup: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The archive */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/gzip": string;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    runDiagnostics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All checks */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Diagnostics"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The caller */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Session"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    signOut: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The result */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["SignOutResult"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    listSessions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Sign-ins, newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["SignInSession"][];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    endSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of a sign-in. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Ended */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Removed"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    listBlocks: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Blocks in force, by id */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Block"][];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getBlock: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of a principal or key, or `forward:` and the name of a forward. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The block */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Block"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    setBlock: {
        parameters: {
            query?: {
                /** @description `allow` also blocks the caller. */
                lock_out?: "allow";
            };
            header?: never;
            path: {
                /** @description Id of a principal or key, or `forward:` and the name of a forward. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["BlockInput"];
            };
        };
        responses: {
            /** @description The block */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Block"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            422: components["responses"]["Unprocessable"];
            500: components["responses"]["Internal"];
        };
    };
    removeBlock: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of a principal or key, or `forward:` and the name of a forward. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Id of the removed block */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Removed"];
                        error: null;
                        /**
                         * @description The database that replicas share cannot be reached: this is the last known state. Otherwise missing.
                         * @constant
                         */
                        stale?: true;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    openMcpStream: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Namespace. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            503: components["responses"]["Unavailable"];
            /** @description As on the MCP listener at `/{name}/mcp`: same filters and evaluators. Events of tool calls have `via: "console"`. No header of the client is copied to an upstream. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    callMcp: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Namespace. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            503: components["responses"]["Unavailable"];
            /** @description As on the MCP listener at `/{name}/mcp`: same filters and evaluators. Events of tool calls have `via: "console"`. No header of the client is copied to an upstream. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    endMcpSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Namespace. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            503: components["responses"]["Unavailable"];
            /** @description As on the MCP listener at `/{name}/mcp`: same filters and evaluators. Events of tool calls have `via: "console"`. No header of the client is copied to an upstream. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    getPrometheusMetrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Content, without the envelope */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getReferencePage: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Content, without the envelope */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getReferenceJson: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Content, without the envelope */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, never>;
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getReferenceYaml: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Content, without the envelope */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-yaml": string;
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getReferenceFile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Rest of the path; may contain `/`. */
                file: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Content, without the envelope */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": string;
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getConsole: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Rest of the path; may contain `/`. */
                file: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Content, without the envelope */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": string;
                };
            };
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    signIn: {
        parameters: {
            query?: {
                /** @description Where the browser is led afterwards: a page of the console, as path below its URL, `/admin/…`. */
                return_to?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The next page. */
            302: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A page that says why it is not possible. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html; charset=utf-8": string;
                };
            };
            403: components["responses"]["Forbidden"];
            /** @description A page that says why the issuer cannot be used now. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html; charset=utf-8": string;
                };
            };
        };
    };
    completeSignIn: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The next page. */
            302: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A page that says why it is not possible. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html; charset=utf-8": string;
                };
            };
            403: components["responses"]["Forbidden"];
            /** @description A page that says why the issuer cannot be used now. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html; charset=utf-8": string;
                };
            };
        };
    };
}
